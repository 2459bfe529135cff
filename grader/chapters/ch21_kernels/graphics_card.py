"""The public numbers of one GPU, the A100 with 40 GB of memory (SXM), as its maker states them."""

from __future__ import annotations

FLOAT32 = 19.5e12  # operations a second, without tensor cores
FLOAT16 = 312e12  # operations a second, of matrix products on tensor cores
BANDWIDTH = 1555e9  # bytes a second, between memory and processors
PROCESSORS = 108
