"""`headway update`: new lessons and tests for a learner's clone."""

from __future__ import annotations

from grader.console.output import command_line, make_console, print_wrapped
from grader.counts import format_count
from grader.course.syllabus import ROOT
from grader.course.update import update as update_clone


def update() -> int:
    """Get new lessons and tests; your code and your points stay.

    This needs git and a clone. A chapter that you have worked on keeps your code, and gets the new text of its stub
    around it.

    Exit status: 0 if the clone is up to date, 2 if it could not be updated; then nothing has changed."""
    console, done = make_console(), update_clone(ROOT)
    if not done.commits:
        print_wrapped(console, "Nothing is new: this clone is up to date.")
        return 0
    print_wrapped(console, f"Updated: {format_count(done.commits, 'change')} from {done.source}.", style="green")
    for name in done.merged:
        print_wrapped(console, f"{name} has your code, and the new text of its stub.")
    for name in done.as_before:
        new_one = f"`git show {done.source}:{name}` shows the new one"
        print_wrapped(console, f"{name} stays as you left it. Its stub has changed where you have: {new_one}.")
    if done.news:
        console.print("\nNew:")
        for line in done.news:
            console.print(line, soft_wrap=True, markup=False, highlight=False)
    if done.needs_installing:
        console.print("\nWhat it needs may have changed. To install that:\n")
        console.print(command_line("make learn"))
    return 0
