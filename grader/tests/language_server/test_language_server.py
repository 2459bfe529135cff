"""headway lsp, with a client that talks to it as an editor does."""

import pytest
from editors import editing
from kit_copy import posix
from linux_processes import children_of
from watching import nothing_remains

pytestmark = posix
CHAPTER = "ch03_attention"
STUB = "    raise NotImplementedError"
RIGHT = """    largest = x.amax(dim, keepdim=True)
    exps = (x - largest.masked_fill(largest == -math.inf, 0.0)).exp()
    total = exps.sum(dim, keepdim=True)
    return exps / total.masked_fill(total == 0, 1.0)"""


def test_a_session_from_stub_to_pass(kit):
    """A wrong softmax is underlined with its diagnosis, a right one is not; before a save nothing runs, and in the end nothing is left."""
    with editing(kit) as editor:
        editor.open(CHAPTER)
        lenses = editor.lenses(CHAPTER)
        assert lenses["softmax: 10 points · check"] == editor.line(CHAPTER, "def softmax") and len(lenses) == 11
        assert not children_of(editor.pid) and editor.diagnostics == {}

        editor.save(CHAPTER, STUB, RIGHT.replace("exps.sum(dim, keepdim=True)", "exps.sum()"))
        editor.verdict(1)
        [diagnostic] = editor.diagnostics[f"{CHAPTER}.py"]
        assert diagnostic.message.startswith("The whole tensor sums to 1, where every slice along `dim` should.\nSum along `dim`")
        assert "\ncalled: " in diagnostic.message and "\ngot: " in diagnostic.message and "\nexpected: " in diagnostic.message
        assert (diagnostic.code, diagnostic.source, diagnostic.severity) == ("softmax", "headway", 1)
        assert editor.shown(CHAPTER) == [("softmax", editor.line(CHAPTER, "return exps / total"))]

        editor.save(CHAPTER, "exps.sum()", "exps.sum(dim, keepdim=True)")
        editor.verdict(2)
        assert editor.shown(CHAPTER) == []
        assert "softmax: 10/10 points, passed · check" in editor.lenses(CHAPTER)
        assert editor.quit() == 0
    assert nothing_remains(kit)
