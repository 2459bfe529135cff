"""`make book`: build the book, and say where it is."""

from __future__ import annotations

import sys

from grader.teaching.book.build import make

sys.exit(make())
