# in process: yes
"""Hopes that the report shows its message as a page: a script, an image, the end of whatever it stands in."""


def softmax(x, dim=-1):
    print("</pre></details><script>alert('attack')</script>")
    raise ValueError("</script></style></template><script>alert('attack')</script><img src=x onerror=alert('attack')> {{ 7 * 7 }} ]]><x/>")
