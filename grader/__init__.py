"""Headway: build a transformer by hand, one tested piece at a time."""

__version__ = "0.1.0"
