"""What relation a wrong tensor has to the right one, said in sentences: `explain`."""

from grader.verdict.relations.engine import explain

__all__ = ["explain"]
