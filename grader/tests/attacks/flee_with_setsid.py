# in process: no, processes can be started there
"""Hopes that a child in a session of its own outlives the worker."""

import os
import time


def softmax(x, dim=-1):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 256)
            time.sleep(600)
        os._exit(0)
    return x
