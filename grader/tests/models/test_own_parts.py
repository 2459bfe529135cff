"""Whose code is in a model, in a sentence; and the learner's line where it raised an exception."""

import pytest
import torch
from grader.console.output import hide_progress
from grader.course.syllabus import load_syllabus
from grader.models.design import build_model
from grader.models.own_parts import (
    CodeProblem,
    OwnParts,
    describe_problem,
    explaining_crashes,
    find_crash,
    find_own_parts,
)
from grader.teaching.walks.parts import ExerciseStatus, NotInHandout
from own_models import GPT, exercises_of, own_parts_of, parts_of, solved


def test_all_parts_none_and_some_have_their_sentence():
    chapters = {exercise.module: solved(exercise.module) for exercise in load_syllabus().exercises if exercise.name in exercises_of(GPT)}
    with own_parts_of(GPT, **chapters) as own:
        assert own.sentences() == [f"Your own code: all {len(exercises_of(GPT))} parts."] and not own.reference
    with own_parts_of(GPT) as own:
        assert "none of the" in own.sentences()[0] and not own.learner
    without = set(exercises_of(GPT)) - {"gelu", "LayerNorm"}
    with parts_of(GPT, passed=without, **chapters) as parts:
        own = OwnParts(parts, ExerciseStatus(failing=["LayerNorm"]))
        count = len(exercises_of(GPT))
        assert own.sentences() == [f"Your own code: {count - 2} of {count} parts. The reference: gelu and LayerNorm (LayerNorm fails its tests)."]


def test_a_chapter_that_does_not_import_is_named():
    with own_parts_of(GPT, ch05_layers="import nonsense_of_mine\n" + solved("ch05_layers")) as own:
        assert any("ch05_layers.py does not import" in sentence and "nonsense_of_mine" in sentence for sentence in own.sentences())


def test_an_exception_in_the_learners_code_has_its_line():
    chapter = solved("ch06_blocks", ("        x = x + self.attn(self.ln1(x))\n        return x + self.ffn(self.ln2(x))", "        return x + self.atn(x)"))
    with parts_of(GPT, ch06_blocks=chapter) as parts:
        with pytest.raises(AttributeError) as caught:
            build_model(parts, GPT, 9)(torch.zeros(1, 3, dtype=torch.long))
        crash = find_crash(caught.value, parts)
        line = chapter.splitlines().index("        return x + self.atn(x)") + 1
        assert crash.startswith("your PreNormBlock raised AttributeError") and f"(ch06_blocks.py, line {line}:" in crash
        assert describe_problem(ZeroDivisionError("of the kit"), parts) == "ZeroDivisionError: of the kit"
        assert find_crash(ZeroDivisionError("of the kit"), parts) is None


def test_what_a_handout_leaves_out_is_a_sentence():
    with pytest.raises(NotInHandout, match="needs teleport, which is not in this handout"):
        find_own_parts(["softmax", "teleport"], hide_progress)


def test_a_missing_package_is_not_blamed_on_the_learner():
    with parts_of(GPT, ch05_layers=solved("ch05_layers")) as parts:
        assert parts.from_learner
        with pytest.raises(CodeProblem, match="a package that this needs is missing or does not work: No module named 'numpi'; `headway doctor`"):
            with explaining_crashes(parts):
                __import__("numpi")
