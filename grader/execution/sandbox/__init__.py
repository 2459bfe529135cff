"""Walls around a worker: what it may ask of the kernel, read, hold and use up; isolation.py says which of them this machine has."""
