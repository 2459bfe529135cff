# in process: yes
# message: SystemExit
"""Hopes that sys.exit(0) ends the tests as if they had passed."""

import sys


def softmax(x, dim=-1):
    sys.exit(0)
