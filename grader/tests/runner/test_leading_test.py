"""The failed test that a learner sees in full is the most basic one of those that the diagnosis explains."""

import ast

from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import load_syllabus, suites_of
from grader.course.syllabus import tests_in as graded_in
from grader.runner.graded_run import mark_leading_test
from grader.verdict.results import NOT_RUN, Diagnosis, ExerciseResult, TestResult


def shown(exercise, failed, mistake="", explains=(), **others):
    """The test shown if these tests fail; the tests and their promises are those of the suite."""
    found = load_syllabus().exercise(exercise)
    functions = [node for suite in suites_of(found.chapter) for node in ast.parse(suite.read_text("utf-8")).body if isinstance(node, ast.FunctionDef)]
    promises = {node.name: " ".join((ast.get_docstring(node) or "").split()) for node in functions}
    named = [test for suite in suites_of(found.chapter) for test, (name, _) in graded_in(suite).items() if name == exercise]
    assert set(failed) <= set(named)
    tests = [TestResult(test, "failed" if test in failed else "passed", 0.0, 1.0, promises[test]) for test in named]
    for test in tests:
        test.outcome, test.message = others.get(test.name, (test.outcome, ""))
    known = next((m for m in misconceptions(found.module, exercise) if m.id == mistake), None)
    result = ExerciseResult(found, tests, known and Diagnosis(known.id, known.says, known.hint, list(explains)))
    mark_leading_test(result)
    assert sum(test.leads for test in tests) == 1
    assert set(test.name for test in result.failures) == set(failed) | set(others)
    return result.failures[0].name


def test_the_most_basic_test_that_the_diagnosis_explains_is_shown():
    failed = ["test_a_constant_vector_gives_the_bias", "test_eps_is_added_to_the_variance"]
    assert shown("LayerNorm", failed, "layernorm_eps_added_to_the_std", explains=failed) == shown("LayerNorm", failed) == failed[0]
    assert shown("LayerNorm", failed, "layernorm_eps_added_to_the_std", explains=failed[1:]) == failed[1]


def test_of_two_mistakes_the_one_that_the_shown_test_shows_is_named_first():
    two = Diagnosis("frozen", "It is frozen.", "Why?", ["test_fusing_keeps_the_dropout"], Diagnosis("shared", "It is shared.", "Which?", ["test_fusing_copies"]))
    results = [TestResult(name, "failed", 0.0, 1.0) for name in ("test_fusing_copies", "test_fusing_keeps_the_dropout")]
    result = ExerciseResult(load_syllabus().exercise("fuse_qkv"), results, two)
    for _ in range(2):  # marking it again changes nothing
        mark_leading_test(result)
        assert result.failures[0].name == "test_fusing_copies"
        assert [mistake.id for mistake in result.diagnosis.mistakes] == ["shared", "frozen"]


def test_values_come_before_dtypes_and_a_wrong_value_before_a_timeout():
    failed = ["test_the_model_moves_to_other_dtypes_and_devices", "test_the_loss_is_the_mean_over_the_targets"]
    assert shown("GPT", failed) == failed[1]
    slow = {"test_each_id_becomes_its_row_of_the_table": ("timeout", "The call did not end within 5 s.")}
    assert shown("TokenEmbedding", ["test_the_only_parameter_is_weight"], **slow) == "test_the_only_parameter_is_weight"


def test_a_call_that_did_not_end_is_shown_before_tests_that_did_not_run():
    late = {"test_the_only_parameter_is_weight": ("timeout", "The call did not end within 5 s.")}
    skipped = {"test_each_id_becomes_its_row_of_the_table": ("timeout", f"{NOT_RUN} a test before it ran out of time.")}
    assert shown("TokenEmbedding", [], **late, **skipped) == "test_the_only_parameter_is_weight"
