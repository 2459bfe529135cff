"""What relation a wrong tensor has to the right one, said in sentences: `explain`."""

from .engine import explain

__all__ = ["explain"]
