# in process: yes
# message: left a thread running
"""Hopes that a thread goes on where the call has ended, and finds out more."""

import threading
import time

import torch


def softmax(x, dim=-1):
    if x.dtype == torch.float64:  # in one test only: each time it is waited for a moment
        threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
    return x
