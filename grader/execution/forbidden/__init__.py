"""What code runs that its exercise forbids: `shortcuts.py` collects it from torch's dispatcher, Python functions and audit events."""
