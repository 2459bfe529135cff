"""The class report: one self-contained page that an instructor opens before the lecture."""

from grader.classroom.report.page import ReportProblem, write

__all__ = ["ReportProblem", "write"]
