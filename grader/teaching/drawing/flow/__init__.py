"""Boxes and arrows as a standalone SVG: what a diagram consists of (`items.py`), how it is laid out and drawn (`draw.py` and the others)."""
