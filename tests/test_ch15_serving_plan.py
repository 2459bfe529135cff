"""Chapter 15, eighth part: which requests write at each step. The rules decide the whole plan, so a test can say what it is."""

import torch
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import seeds


def requests_of(seed, count, longest=5, latest=8):
    """Requests with random arrivals, not in order, and lengths."""
    generator = torch.Generator().manual_seed(seed * 31 + count)
    arrivals, lengths = torch.randint(latest, (count,), generator=generator), torch.randint(1, longest + 1, (count,), generator=generator)
    return list(zip(arrivals.tolist(), lengths.tolist()))


def check_plan(plan):
    """A list of lists."""
    right = isinstance(plan, list) and all(isinstance(step, list) for step in plan)
    holds(right, f"continuous_batches should return a list with a list of numbers for each step; it returned {plan!r:.80}")
    return plan


@exercise("continuous_batches", weight=4)
@settings(max_examples=8)
@example(count=7, seats=2, seed=3)
@example(count=7, seats=3, seed=11)
@example(count=13, seats=3, seed=1)  # two digits
@given(count=st.integers(5, 9), seats=st.integers(1, 4), seed=seeds)
def test_who_writes_at_each_step(learner, reference, count, seats, seed):
    """For each step from 0, the ascending numbers of the requests that write: seats go to the earliest arrivals, then to the lower numbers."""
    requests = requests_of(seed, count)
    same(learner.continuous_batches(requests, seats), reference.continuous_batches(requests, seats), f"the plan with max_batch={seats}")


@exercise("continuous_batches", weight=2)
def test_an_empty_seat_is_taken_at_the_next_step(learner):
    """Requests of 4, 1, 1 and 2 tokens with two seats take 4 steps: no request waits until a whole batch is finished while a seat is empty."""
    found = learner.continuous_batches([(0, 4), (0, 1), (0, 1), (0, 2)], 2), learner.continuous_batches([(0, 1), (0, 3), (0, 2), (0, 1)], 1)
    same(found[0], [[0, 1], [0, 2], [0, 3], [0, 3]], "the plan with max_batch=2")
    same(found[1], [[0], [1], [1], [1], [2], [2], [3]], "the plan with max_batch=1")


@exercise("continuous_batches", weight=2)
@settings(max_examples=4)
@given(count=st.integers(6, 9), seats=st.integers(2, 3), seed=seeds)
def test_each_request_writes_at_consecutive_steps(learner, count, seats, seed):
    """Each request writes at as many consecutive steps as it has tokens, never before it arrives, and no step has more than max_batch."""
    requests = requests_of(seed, count)
    plan = check_plan(learner.continuous_batches(requests, seats))
    for number, (arrival, tokens) in enumerate(requests):
        steps = [step for step, writing in enumerate(plan) if number in writing]
        holds(len(steps) == tokens, f"request {number} has {tokens} tokens; it writes at {len(steps)} steps")
        holds(steps == list(range(steps[0], steps[0] + tokens)), f"request {number} should write at consecutive steps; it writes at {steps}")
        holds(steps[0] >= arrival, f"request {number} arrives at step {arrival}; it writes at step {steps[0]} already")
    for step, writing in enumerate(plan):
        holds(len(writing) <= seats, f"at step {step} {len(writing)} requests write, with {seats} seats")


@exercise("continuous_batches", weight=2)
def test_nobody_is_overtaken(learner):
    """Earlier arrivals take seats first, whatever their lengths and their places in the list; of equal arrivals the lower number."""
    long_first = learner.continuous_batches([(0, 2), (1, 5), (1, 1), (2, 1)], 1)
    mixed = learner.continuous_batches([(3, 1), (0, 3), (2, 2), (1, 2), (2, 1)], 2)
    same(long_first, [[0], [0], [1], [1], [1], [1], [1], [2], [3]], "the plan with max_batch=1, where a long request arrives before short ones")
    same(mixed, [[1], [1, 3], [1, 3], [2, 4], [0, 2]], "the plan with max_batch=2, where the list is not in the order of arrival")


@exercise("continuous_batches", weight=2)
def test_steps_without_work_are_empty(learner):
    """A step at which no request writes is an empty list, at the beginning and in between; the plan ends with the last token, and is empty without requests."""
    late, far = learner.continuous_batches([(3, 2), (8, 1)], 4), learner.continuous_batches([(0, 2), (1200, 1)], 4)
    nothing, at_once = learner.continuous_batches([], 3), learner.continuous_batches([(0, 1), (0, 1), (0, 1)], 5)
    same(late, [[], [], [], [0], [0], [], [], [], [1]], "the plan of requests that arrive at steps 3 and 8")
    same(at_once, [[0, 1, 2]], "the plan of three single tokens with five seats")
    same(nothing, [], "the plan without requests")
    same(far, [[0], [0], *([] for _ in range(1198)), [1]], "the plan of a request that arrives at step 1200, long after the first one")


@exercise("continuous_batches")
def test_a_batch_has_at_least_one_seat(learner):
    """max_batch below 1 raises a ValueError that names it."""
    same(learner.continuous_batches([(0, 2)], 1), [[0], [0]], "the plan of one request with max_batch=1")
    for seats in (0, -1):
        refuses(lambda seats=seats: learner.continuous_batches([(0, 2)], seats), naming={"max_batch": seats})
