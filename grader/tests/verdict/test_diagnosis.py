"""A known mistake is named if the answers are exactly its answers, and nothing is said otherwise."""


import pytest
import torch
from grader.course.known_mistakes import StaleEdit, bases, misconceptions
from grader.course.source import definition, replace_definition
from grader.course.syllabus import load_syllabus
from grader.execution.target import Target, reference_of
from grader.runner import graded_run
from grader.runner.graded_run import GradedRun
from grader.runner.judging import run_exercise
from grader.verdict import diagnosis
from grader.verdict.diagnosis import Candidate, Search, SearchStopped, best_pair
from grader.verdict.replay import CONFLICT, FULL, Match, Version, agrees, text_with_mistake, values_match
from grader.verdict.results import ExerciseResult, TestResult
from grader.verdict.trial import Trial
from unlisted_mistakes import TOP_K_ALL_WRONG, TOP_K_WITH_A_WAY_OF_ITS_OWN

# The whole tensor normalised at once, as a learner might write it without our solution.
SOFTMAX_OVER_ALL = '''
def softmax(x, dim=-1):
    peak, _ = x.max(dim=dim, keepdim=True)
    peak = torch.where(torch.isinf(peak), torch.zeros_like(peak), peak)
    powers = (x - peak).exp()
    everything = float(powers.sum()) or 1.0
    return powers / powers.sum().clamp_min(1e-30) if everything else powers
'''
# A mistake that is not in the catalogue.
SPLIT_BACKWARDS = '''
def split_heads(x, n_heads):
    B, T, D = x.shape
    if D % n_heads:
        raise ValueError(f"{D} features, {n_heads} heads")
    return x.view(B, T, n_heads, D // n_heads).transpose(1, 2).flip(1).flip(2)
'''
# Two known mistakes at once match neither of them.
CAUSAL_TWICE_WRONG = '''
def causal_mask(q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    return ~torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=1)
'''

# Rounded to float32 in another order than the known mistake's: both have float64 numbers that float32 can hold.
SOFTMAX_BACKWARD_IN_FLOAT32 = '''
def softmax_backward(weights, grad_out, dim=-1):
    w, g = weights.float(), grad_out.float()
    return (w * (g - (w * g).sum(dim, keepdim=True))).to(weights.dtype)
'''
# As near to the right answers, with all digits of float64: along the last axis the answers of "dim has no effect" agree with it, and so do the reference's.
SOFTMAX_BACKWARD_NEARLY = '''
def softmax_backward(weights, grad_out, dim=-1):
    return weights * (grad_out - (weights * grad_out).sum(dim, keepdim=True)) * (1 + 1e-7)
'''


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """On a busy machine, too, the search finds what it would find."""
    monkeypatch.setattr(graded_run, "SEARCH_SECONDS", 300.0)
    monkeypatch.setattr(graded_run, "CLASS_SEARCH_SECONDS", 300.0)


def diagnosed(module: str, **definitions: str) -> list[str | None]:
    """The id of the mistake that is named in each of these exercises of the reference, defined so; each fails."""
    text = reference_of(module).text
    for name, wrong in definitions.items():
        text = replace_definition(text, name, wrong.strip() + "\n")
    results = [run_exercise(load_syllabus().exercise(name), Target("mistaken", None, {module: text})) for name in definitions]
    assert all(result.outcome == "failed" for result in results)
    return [result.diagnosis and result.diagnosis.id for result in results]


def test_a_known_mistake_is_named_in_any_style_and_an_unknown_one_and_a_mixture_are_not():
    found = diagnosed("ch03_attention", softmax=SOFTMAX_OVER_ALL, split_heads=SPLIT_BACKWARDS, causal_mask=CAUSAL_TWICE_WRONG)
    assert found == ["softmax_sum_of_everything", None, None]


@pytest.mark.parametrize(("wrong", "named"), [(TOP_K_WITH_A_WAY_OF_ITS_OWN, "k_threshold_goes_too"), (TOP_K_ALL_WRONG, None)])
def test_the_same_wrong_numbers_in_most_tests_name_a_mistake_too(wrong, named):
    assert diagnosed("ch09_sampling", top_k_filter=wrong) == [named]


@pytest.mark.parametrize(("wrong", "named"), [(SOFTMAX_BACKWARD_IN_FLOAT32, "softmax_gradient_in_float32"), (SOFTMAX_BACKWARD_NEARLY, None)])
def test_where_the_reference_is_as_near_a_mistake_is_named_only_for_digits_of_float32(wrong, named):
    assert diagnosed("ch13_backward", softmax_backward=wrong) == [named]


def test_a_mistake_is_left_at_the_first_failed_test_whose_answers_it_does_not_give(monkeypatch):
    asked = {}  # version -> each comparison with a record: its test, and whether the answers agree

    def noted(replayer, record, *matches):
        found = agrees(replayer, record, *matches)
        asked.setdefault(replayer.own.text, []).append((record.test, found))
        return found

    monkeypatch.setattr(diagnosis, "agrees", noted)
    assert diagnosed("ch03_attention", softmax=SOFTMAX_OVER_ALL) == ["softmax_sum_of_everything"]
    _, *mistaken = asked.values()  # the reference comes first
    assert len(mistaken) == len([mistake for mistake in misconceptions("ch03_attention") if mistake.exercise == "softmax"])
    for comparisons in mistaken:
        given_up = [place for place in range(1, len(comparisons)) if comparisons[place - 1] == comparisons[place] == (comparisons[place][0], False)]
        assert given_up in ([], [len(comparisons) - 1]), comparisons
    assert sum(len(comparisons) == 2 for comparisons in mistaken) > len(mistaken) / 2


def test_a_search_that_takes_too_long_is_stopped_with_a_sentence():
    exercise = load_syllabus().exercise("causal_mask")
    mistaken = text_with_mistake("ch03_attention", misconceptions("ch03_attention", "causal_mask")[0])
    trial = Trial(Target("mistaken", None, {"ch03_attention": mistaken}))
    trial.begin_test(exercise, "test_wide")
    trial.begin_example()
    trial.learner("ch03").causal_mask(2, 5)
    trial.end_test("failed")
    assert Search(exercise, trial.records["causal_mask"]).run() and Search(exercise, []).run() is None
    with pytest.raises(SearchStopped):
        Search(exercise, trial.records["causal_mask"]).run(seconds=-1.0)
    run = GradedRun(trial)
    run.results = {"causal_mask": ExerciseResult(exercise, [TestResult("test_wide", "failed", 0.0, 1.0)])}
    run.weights, run.shortcuts = {"causal_mask": {"test_wide": 1.0}}, {"causal_mask": set()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graded_run, "SEARCH_SECONDS", -1.0)
        patch.setattr(graded_run, "CLASS_SEARCH_SECONDS", -1.0)
        run.conclude()
    assert run.results["causal_mask"].diagnosis is None
    assert "The search for a known mistake in causal_mask was stopped after -1 s." in run.notes[0]


def test_an_edit_that_no_longer_fits_is_reported():
    mistake = misconceptions("ch03_attention")[0]
    stale = type(mistake)(mistake.id, mistake.exercise, "no such text", "anything", mistake.says, mistake.hint)
    with pytest.raises(StaleEdit, match=f"{mistake.id}.*occurs 0 times"):
        text_with_mistake("ch03_attention", stale)


def test_an_edit_changes_its_own_exercise_and_nothing_else():
    reference = reference_of("ch03_attention").text
    for mistake in misconceptions("ch03_attention")[::9]:
        edited = text_with_mistake("ch03_attention", mistake)
        before, after = definition(reference, mistake.exercise), definition(edited, mistake.exercise)
        assert edited.replace(after.text, "", 1) == reference.replace(before.text, "", 1), mistake.id


def test_values_are_equal_up_to_rounding_only():
    x = torch.randn(3, 4)
    assert values_match([x, {"a": 1.0}], [x * (1 + 1e-6), {"a": 1.0 + 1e-9}])
    assert not values_match(x, x * 1.001)
    assert not values_match(x, x.double())
    assert not values_match([1], (1,))
    assert not values_match(True, 1)
    assert values_match(float("nan"), float("nan"))


def test_a_recording_keeps_the_calls_of_the_last_example():
    exercise = load_syllabus().exercise("count_pairs")
    trial = Trial(Target("a reference", None, {"ch01_tokenizer": reference_of("ch01_tokenizer").text}))
    learner = trial.learner("ch01")
    trial.begin_test(exercise, "one")
    for ids in ([1, 2], [1, 2, 1, 2]):
        trial.begin_example()
        assert learner.count_pairs(ids)
    trial.end_test("passed")
    (record,) = trial.records["count_pairs"]
    assert [entry.op for entry in record.log] == ["get", "call"]
    trial.close()


def test_two_mistakes_are_not_named_where_another_explains_alone_what_they_explain_together():
    one, two, rival = misconceptions("ch03_attention", "softmax")[:3]
    a_little, much, other = Match(FULL, 1.0), Match(FULL, 8.0), Match(CONFLICT)
    both = _candidate((one, two), [a_little, much])
    alone = [_candidate((one,), [a_little, other]), _candidate((two,), [other, other])]
    assert best_pair([both], [*alone, _candidate((rival,), [a_little, other])]) == both
    assert best_pair([both], [*alone, _candidate((rival,), [other, much])]) is None
    assert best_pair([both], [*alone, _candidate((rival,), [other, much], breaks=1)]) == both, "it breaks what passes, so it is no rival"
    strong = [_candidate((one,), [Match(FULL, 9.0), other]), alone[1]]
    assert best_pair([both], [*strong, _candidate((rival,), [other, much])]) == both


def _candidate(mistakes, matches, breaks=0):
    return Candidate(Version(bases("ch03_attention", "softmax")[0], mistakes), mistakes, matches, breaks)
