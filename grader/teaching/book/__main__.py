"""`make book`: build the book, and print where it is."""

from __future__ import annotations

import sys

from grader.teaching.book.build import build_and_report

sys.exit(build_and_report())
