"""Code that keeps its last result, for another call with arguments of the same sizes, is refused at every seed; code that looks at the values is not."""

import pytest
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target, reference_of
from grader.runner.judging import run_exercise

# The reference, with its last result kept. Each result is a copy, so that writing into one changes no other.
KEPT = '''
_right, _last = {name}, None
def {name}(first, *rest, **options):
    global _last
    key = ({key}, str(first.dtype), str(first.device), rest, tuple(options.items()))
    if _last is None or _last[0] != key:
        _last = key, _right(first, *rest, **options)
    return _last[1].clone() if hasattr(_last[1], "clone") else (_last[1][0].clone(), _last[1][1])
'''


@pytest.mark.parametrize("name", ["padding_mask", "rope_angles", "yarn_angles"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_result_kept_for_its_sizes_is_refused_and_one_kept_for_its_values_is_right(name, seed):
    exercise = load_syllabus().exercise(name)

    def outcome(key):
        text = reference_of(exercise.module).text + KEPT.format(name=name, key=key)
        return run_exercise(exercise, Target("kept", None, {exercise.module: text}), seed=seed).outcome

    by_values = "str(first.tolist()) if not first.is_meta else id(first)"
    assert (outcome("tuple(first.shape)"), outcome(by_values)) == ("failed", "passed")
