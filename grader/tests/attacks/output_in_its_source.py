# in process: yes
"""Hopes that the line that is quoted from its own file commands, too."""


def softmax(x, dim=-1):
    return x.nothing  # </pre><script>alert('attack')</script> \x1b[2J =1+1 ‮ 
