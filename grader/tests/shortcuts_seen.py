"""Runs a call while forbidden functions are watched."""

from grader.course.torch_operators import reportable, reportable_at_import
from grader.execution.forbidden.shortcuts import watching


def seen(call, *names, importing=False):
    """Return the call's result and what was reported meanwhile."""
    found = []
    with watching(names, found.append, importing):
        result = call()
    assert set(found) <= (reportable_at_import(names) if importing else reportable(names))
    return result, found
