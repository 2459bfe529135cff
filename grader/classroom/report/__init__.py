"""The class report: one self-contained page that an instructor opens before the lecture."""

from grader.classroom.report.page import write
from grader.classroom.report.templates import ReportProblem

__all__ = ["ReportProblem", "write"]
