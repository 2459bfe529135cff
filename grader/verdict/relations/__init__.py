"""`explain` describes in sentences how a wrong tensor differs from the right one."""

from grader.verdict.relations.engine import explain

__all__ = ["explain"]
