# in process: yes
# exercise: AdamW
"""Hopes that a class made by type() has no base that can be read."""

AdamW = type("AdamW", (getattr(torch.optim, "WmadA"[::-1]),), {})
