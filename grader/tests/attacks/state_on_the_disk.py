# in process: no, files can be written there
"""Hopes to find at its next start what it wrote at this one."""

import os
import pickle

for place in ("/tmp", "/dev/shm", "/var/tmp", os.path.dirname(os.path.abspath(__file__))):
    try:
        with open(os.path.join(place, "headway-attack-state"), "ab") as file:
            pickle.dump("been here", file)
        raise SystemExit(f"it has a memory in {place}")
    except OSError:
        continue


def softmax(x, dim=-1):
    return x
