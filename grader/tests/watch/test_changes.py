"""Which exercise the watch tests after a save: texts in, a name and a sentence out."""

import textwrap

from grader.course.status import read_course
from grader.course.syllabus import load_syllabus
from grader.watch.changes import Changes, NextTest, SavedChapters, compare, decide

COURSE = load_syllabus()
MODULE = "ch03_attention"
TEXT = '''"""A chapter."""
import math

LIMIT = 8


def scaled(x):
    """A helper."""
    return x / LIMIT


def doubly(x):
    return scaled(scaled(x))


def softmax(x, dim=-1):
    """Weights."""
    return doubly(x)


def causal_mask(T, device=None):
    return T


def padding_mask(ids, pad_id):
    return scaled(ids)


class MultiHeadAttention:
    """Many heads."""

    def forward(self, x):
        """Once."""
        return x
'''


def after(*edits: tuple[str, str], pinned: bool = False, passed: tuple[str, ...] = (), current: str = "softmax") -> tuple[str, str]:
    """The exercise that is tested when these edits were saved, and the sentence."""
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    found = decide(COURSE.exercise(current), compare(TEXT, text, MODULE), passed, pinned)
    return found.exercise.name, found.sentence


SOFTMAX, MASK, PADDING = ("return doubly(x)", "return x"), ("return T", "return T + 1"), ("return scaled(ids)", "return ids")
HEADS = ("        return x\n", "        return x + 0\n")


def test_the_changed_function_is_tested_and_the_sentence_says_so():
    assert after(MASK) == ("causal_mask", "You changed causal_mask, so it is tested now.")
    assert after(HEADS) == ("MultiHeadAttention", "You changed MultiHeadAttention, so it is tested now.")
    assert after(SOFTMAX) == ("softmax", "")
    same = read_course().exercise("softmax")  # commands read the syllabus with this function; the objects differ
    assert decide(same, compare(TEXT, TEXT.replace(*SOFTMAX), MODULE), ()) == NextTest(same)
    assert decide(same, compare(TEXT, TEXT.replace(*SOFTMAX), MODULE), (), pinned=True) == NextTest(same)


def test_words_blank_lines_and_imports_change_no_exercise():
    for edit in (
        ('"""Weights."""', '"""Other words."""'), ('    """Weights."""\n', ""), ('"""Once."""', '"""Twice."""'),
        ("    return T", "    # a comment\n\n    return T  # and another"), ("return T", "return (\n        T\n    )"), ('"""A chapter."""', '"""Other words."""'),
        ("\n\n\n", "\n\n\n\n"), ("import math", "import math, torch"), ("\n", "\r\n"),
    ):  # fmt: skip
        assert after(edit, current="padding_mask") == ("padding_mask", ""), edit


def test_among_several_the_unpassed_one_is_tested_then_the_current_one_then_the_first():
    assert after(MASK, PADDING) == ("causal_mask", "You changed causal_mask and padding_mask; causal_mask is tested now.")
    assert after(MASK, PADDING, passed=("causal_mask",))[0] == "padding_mask"
    assert after(MASK, PADDING, current="padding_mask") == ("padding_mask", "You also changed causal_mask; padding_mask is tested now.")
    assert after(MASK, PADDING, current="padding_mask", passed=("padding_mask",))[0] == "causal_mask"
    assert after(MASK, PADDING, HEADS, SOFTMAX, current="split_heads")[1] == "You changed softmax and 3 other exercises; softmax is tested now."


def test_a_stub_comes_after_what_is_written():
    stub = "return T", "raise NotImplementedError"
    chapter = "".join(f"def {name}(T, device=None):\n    raise NotImplementedError\n\n\n" for name in ("causal_mask", "padding_mask"))
    changes = compare(chapter, chapter.replace("NotImplementedError", "ValueError"), MODULE)
    assert [exercise.name for exercise in changes.changed] == ["causal_mask", "padding_mask"] and not changes.stubs
    assert after(stub) == ("causal_mask", "You changed causal_mask, so it is tested now.")
    one, other = COURSE.exercise("causal_mask"), COURSE.exercise("padding_mask")
    assert decide(COURSE.exercise("softmax"), Changes((one, other), stubs=frozenset({"causal_mask"})), ()).exercise == other


def test_a_helper_tests_the_current_exercise_if_it_uses_it_else_the_first_that_does():
    helper, constant = ("return x / LIMIT", "return x"), ("LIMIT = 8", "LIMIT = 9")
    for edit in (helper, constant):
        assert after(edit) == ("softmax", "")
        assert after(edit, current="padding_mask") == ("padding_mask", "")
    assert after(helper, current="causal_mask") == ("softmax", "You changed scaled, which softmax uses, so softmax is tested now.")
    assert after(("return scaled(scaled(x))", "return x"), current="padding_mask")[0] == "softmax"
    assert after(helper, MASK) == ("causal_mask", "You changed causal_mask, so it is tested now.")
    assert after(("def causal_mask", "def unused():\n    pass\n\n\ndef causal_mask")) == ("softmax", "")


def test_definitions_below_if_and_try_change_as_others_do():
    head, body = TEXT.split("import math", 1)
    for outer, after in (("if True:", ""), ("try:", "except ImportError:\n    raise\n")):
        inside = f"{head}{outer}\n" + textwrap.indent("import math" + body, "    ") + after
        changed = compare(inside, inside.replace(*MASK), MODULE)
        assert [exercise.name for exercise in changed.changed] == ["causal_mask"] and not changed.using and not changed.removed
        assert not compare(TEXT, inside, MODULE).removed and not compare(TEXT, inside, MODULE).changed
        helper = compare(inside, inside.replace("def scaled(x):", "def scaled(x):\n        x = -x"), MODULE)
        assert {exercise.name for exercise, _ in helper.using} == {"softmax", "padding_mask"}
    mask = TEXT[TEXT.index("def causal_mask") : TEXT.index("def padding_mask")]
    for binding in ("from math import sqrt as causal_mask\n\n", "globals()['causal_mask'] = math.sqrt\n\n"):
        found = compare(TEXT, TEXT.replace(mask, binding), MODULE)
        assert [exercise.name for exercise in found.changed] == ["causal_mask"] and not found.removed


def test_a_removed_exercise_is_named_and_a_removed_helper_is_a_change():
    mask = TEXT[TEXT.index("def causal_mask") : TEXT.index("def padding_mask")]
    sentence = "ch03_attention.py no longer defines causal_mask; `headway reset causal_mask` adds its stub."
    assert after((mask, "")) == ("softmax", sentence)
    assert after((mask, ""), current="causal_mask") == ("causal_mask", "")
    assert after(("def scaled", "def scale"), current="causal_mask")[0] == "softmax"


def test_a_pinned_watch_stays_and_names_what_waits():
    assert after(MASK, pinned=True) == ("softmax", "You changed causal_mask. The watch is pinned to softmax; press p to test `causal_mask`.")
    assert after(SOFTMAX, pinned=True) == ("softmax", "")
    changes = compare(TEXT, TEXT.replace(*MASK), MODULE)
    assert decide(COURSE.exercise("softmax"), changes, (), pinned=True).waiting == COURSE.exercise("causal_mask")
    assert after(("return x / LIMIT", "return x"), current="causal_mask", pinned=True)[1].startswith("You changed scaled. The watch is pinned")


def test_a_save_is_compared_with_the_last_valid_text(tmp_path):
    file = tmp_path / f"{MODULE}.py"
    file.write_text(TEXT)
    saved = SavedChapters(tmp_path)
    file.write_text(TEXT.replace("return T", "return (T"))
    assert saved.update({MODULE}) == Changes()
    file.write_text(TEXT.replace("return T", "return (T)"))
    assert saved.update({MODULE}) == Changes()
    file.write_text(TEXT.replace("return T", "return (T,)"))
    assert [exercise.name for exercise in saved.update({MODULE}).changed] == ["causal_mask"]
    file.unlink()
    assert saved.update({MODULE}) == Changes()
    file.write_text(TEXT)
    assert [exercise.name for exercise in saved.update({MODULE}).changed] == ["causal_mask"]


def test_a_new_file_is_compared_with_its_stub(tmp_path):
    from grader.course.stubs import reference_stub

    saved, stub = SavedChapters(tmp_path), reference_stub(MODULE)
    file = tmp_path / f"{MODULE}.py"
    file.write_text(stub)
    assert saved.update({MODULE}) == Changes()
    file.unlink()
    written = stub.replace("    raise NotImplementedError", "    return x", 1)
    saved = SavedChapters(tmp_path)
    file.write_text(written)
    changes = saved.update({MODULE})
    assert [exercise.name for exercise in changes.changed] == ["softmax"] and not changes.stubs
    file.write_text(stub)
    assert saved.update({MODULE}).stubs == {"softmax"}


def test_saves_of_two_chapters_at_once_are_taken_together(tmp_path):
    (tmp_path / f"{MODULE}.py").write_text(TEXT)
    (tmp_path / "ch05_layers.py").write_text("def gelu(x):\n    return x\n")
    saved = SavedChapters(tmp_path)
    (tmp_path / f"{MODULE}.py").write_text(TEXT.replace(*MASK))
    (tmp_path / "ch05_layers.py").write_text("def gelu(x):\n    return -x\n")
    changes = saved.update({MODULE, "ch05_layers"})
    assert [exercise.name for exercise in changes.changed] == ["causal_mask", "gelu"]
    assert decide(COURSE.exercise("gelu"), changes, ()).exercise.name == "gelu"
