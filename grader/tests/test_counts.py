"""A number with its noun is made in one place, in the singular where it is one."""

import re

from grader.counts import format_count
from grader.course.syllabus import ROOT

INLINE = re.compile(r"""\} [\w ]*\w\{(['"]s['"] (if|\*)|['"]['"] if )|['"]1 [a-z]+['"] if """)


def test_one_is_singular():
    assert [format_count(many, "person", "people") for many in (0, 1, 2)] == ["0 people", "1 person", "2 people"]
    assert format_count(1, "more exercise") == "1 more exercise" and format_count(1200, "step") == "1,200 steps"


def test_no_other_module_makes_a_plural_of_its_own():
    for path in (ROOT / "grader").rglob("*.py"):
        if "tests" not in path.parts:
            assert not INLINE.search(path.read_text(encoding="utf-8")), path
