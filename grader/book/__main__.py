"""`make book`: build the book, and say where it is."""

from __future__ import annotations

import sys

from grader.commands.book import make

sys.exit(make())
