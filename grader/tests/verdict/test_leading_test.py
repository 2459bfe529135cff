"""The failed test that a learner sees in full is the one that the diagnosis explains best, or else the most basic one."""

import ast

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.syllabus import load_syllabus, suites_of
from grader.course.syllabus import tests_in as graded_in
from grader.verdict.leading_test import mark_leading_test
from grader.verdict.results import NOT_RUN, Diagnosis, ExerciseResult, TestResult


def shown(exercise, failed, mistake="", **others):
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
    result = ExerciseResult(found, tests, known and Diagnosis(known.id, known.says, known.hint, list(failed)))
    mark_leading_test(result)
    assert sum(test.leads for test in tests) == 1
    assert set(test.name for test in result.failures) == set(failed) | set(others)
    return result.failures[0].name


@pytest.mark.parametrize(
    "exercise, mistake, failed",
    [
        ("LayerNorm", "layernorm_eps_added_to_the_std", ["test_a_constant_vector_gives_the_bias", "test_eps_is_added_to_the_variance"]),
        ("build_vocab", "vocab_upper_cased", ["test_the_vocabulary_is_every_distinct_word_once_in_order", "test_upper_and_lower_case_are_one_word"]),
        ("train_bpe", "bpe_wants_three", ["test_merges_are_learned_one_after_another", "test_it_stops_when_no_pair_occurs_twice"]),
        ("DecoderBlock", "dec_memory_detached", ["test_a_decoder_position_that_may_attend_to_nothing", "test_gradients_of_a_decoder_block"]),
    ],
)
def test_the_promise_that_says_what_the_diagnosis_says_is_shown(exercise, mistake, failed):
    assert shown(exercise, failed, mistake) == failed[-1]
    assert shown(exercise, failed) == failed[0]  # without a diagnosis the most basic one


def test_a_few_shared_common_words_do_not_replace_the_most_basic_test():
    failed = ["test_each_query_averages_the_values_with_softmax_weights", "test_bias_is_added_to_the_scaled_scores", "test_gradients_of_attention"]
    assert shown("scaled_dot_product_attention", failed, "attention_not_scaled") == failed[0]


def test_values_come_before_dtypes_and_a_wrong_value_before_a_timeout():
    failed = ["test_the_model_moves_to_other_dtypes_and_devices", "test_the_loss_is_the_mean_over_the_targets"]
    assert shown("GPT", failed) == failed[1]
    slow = {"test_each_id_becomes_its_row_of_the_table": ("timeout", "The call did not end within 5 s.")}
    assert shown("TokenEmbedding", ["test_the_only_parameter_is_weight"], **slow) == "test_the_only_parameter_is_weight"


def test_a_call_that_did_not_end_is_shown_before_tests_that_did_not_run():
    late = {"test_the_only_parameter_is_weight": ("timeout", "The call did not end within 5 s.")}
    skipped = {"test_each_id_becomes_its_row_of_the_table": ("timeout", f"{NOT_RUN} a test before it ran out of time.")}
    assert shown("TokenEmbedding", [], **late, **skipped) == "test_the_only_parameter_is_weight"
