"""The measurements of lesson 17's labs: what they compute is what they say, and what the lesson concludes holds."""

from __future__ import annotations

import io
import math
import re
from contextlib import redirect_stdout
from functools import cache

import pytest
import torch
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from grader.models.tuning_labs import adapters, hacking, preferences
from grader.models.tuning_labs.small_model import SmallModel, perplexity, train_small_model
from grader.teaching.measurements import list_measurements, run_measurement

LABS = {
    "rank": "rank",
    "forgetting": "forgetting",
    "animals": "hacking",
    "swapped": "noise",
    "blind": "blind",
}  # of the lesson, of the command


def nothing(*arguments: object) -> None:
    pass


@pytest.fixture(scope="module")
def small() -> SmallModel:
    """A model after a few steps, so that it still writes nearly every word."""
    target = resolve("solutions")
    package = ChapterPackage(
        [target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs"
    )
    with torch.random.fork_rng(devices=[]):
        yield train_small_model(package, 0, 20, nothing)
    package.close()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


# ---- the model and its adapters


def test_no_text_is_trained_on_and_held_out(small):
    assert not {tuple(text.ids) for text in small.texts} & {tuple(text.ids) for text in small.held_out}
    texts = [small.tokenizer.decode(text.ids) for text in (*small.texts, *small.held_out)]
    assert len(small.held_out) == 500 and all(2 < len(re.findall(r"[.!?]", text)) < 7 for text in texts)


def test_the_tasks_change_what_they_say(small):
    text = "Anna gave Tom a red hat."
    [start], end, ids = small.tokenizer.start_ids, small.tokenizer.end_id, small.tokenizer.encode(text)
    assert small.tokenizer.decode(adapters.one_name(small, ids)) == "Mia gave Mia a red hat."
    assert adapters.backwards(small, [start, *ids, end]) == [
        start,
        *small.tokenizer.encode(". hat red a Tom gave Anna"),
        end,
    ]


def test_tuning_leaves_the_model_as_it_was_and_the_adapter_comes_off(small):
    before = {name: value.clone() for name, value in small.model.state_dict().items()}
    model = adapters.tuned(small, adapters.backwards, adapters.ADAPTER, 3, 0, nothing)
    without = adapters.without_adapter(small, model)
    held_out = [text.ids for text in small.held_out[:50]]
    assert (
        perplexity(small, model, held_out)
        != perplexity(small, without, held_out)
        == perplexity(small, small.model, held_out)
    )
    for state in (small.model.state_dict(), without.state_dict()):
        assert list(state) == list(before) and all(state[name].equal(value) for name, value in before.items())
    assert perplexity(small, adapters.tuned(small, adapters.backwards, adapters.FULL, 3, 0, nothing), held_out) != perplexity(
        small, small.model, held_out
    )


# ---- pairs


def test_in_balanced_pairs_every_answer_is_chosen_once_and_rejected_once(small):
    pairs = preferences.make_pairs(small.held_out, seeded())
    own = {tuple(text.question): text.answer for text in small.held_out}
    assert all(own[tuple(pair.question)] == pair.chosen for pair in pairs) and len(own) <= len(pairs) == len(
        small.held_out
    )
    assert sorted(pair.chosen for pair in pairs) == sorted(pair.rejected for pair in pairs)
    biased = preferences.longer_is_better(small.held_out, seeded())
    assert len(biased) > 100 and all(len(pair.chosen) > len(pair.rejected) for pair in biased)


@pytest.mark.parametrize("percent", [0, 10, 25, 50])
def test_exactly_this_share_is_swapped(small, percent):
    pairs = preferences.make_pairs(small.texts[:200], seeded())
    swapped = preferences.swap(pairs, percent, seeded())
    assert sum(one != other for one, other in zip(pairs, swapped)) == 2 * percent
    assert all(
        other in (one, preferences.Pair(one.question, one.rejected, one.chosen)) for one, other in zip(pairs, swapped)
    )


def test_log_probabilities_are_those_of_the_answers_alone(small):
    pairs = preferences.make_pairs(small.texts[:5], seeded())
    with torch.no_grad():
        found = torch.stack(preferences.log_probs(small, small.model, pairs), 1)
        for row, pair in zip(found, pairs):
            for value, answer in zip(row, (pair.chosen, pair.rejected)):
                logits = small.model(torch.tensor([[*pair.question, *answer]]))[0][0, len(pair.question) - 1 : -1]
                assert value == pytest.approx(
                    torch.log_softmax(logits, -1).gather(1, torch.tensor(answer)[:, None]).sum().item(), abs=1e-3
                )


def test_an_untrained_policy_prefers_half_and_a_trained_one_what_it_was_shown(small):
    pairs = preferences.make_pairs(small.texts[:16], seeded())
    assert preferences.share_preferred(small, small.model, pairs) == 0.5
    policy = preferences.train_dpo(small, pairs, 12, 0, nothing)
    assert preferences.share_preferred(small, policy, pairs) > 0.9
    assert preferences.share_preferred(small, policy, [pair.swapped for pair in pairs]) < 0.1


def test_what_a_reward_model_does_not_see_does_not_change_its_reward(small):
    one, other = small.texts[:2]
    for text in (one, other):
        assert preferences.only_answer(text.question, one.answer) == [*small.tokenizer.start_ids, *one.answer]
    longer = preferences.only_length(one.question, [*one.answer, *one.answer])
    assert len(set(longer[:-1])) == 1 and len(longer) == 2 * len(one.answer) + 1
    texts = [text.ids for text in small.texts[:6]]
    with torch.no_grad():
        alone = torch.cat([preferences.rewards(small, small.model, [text]) for text in texts])
        assert torch.allclose(preferences.rewards(small, small.model, texts), alone, atol=1e-4)


# ---- rewards for animals


def test_animals_count_up_to_the_first_end_token(small):
    written = hacking.write(small, small.model, hacking.prompts_of(small, 64, seeded()), seeded())
    animals, end = set(hacking.ANIMALS.split()), small.tokenizer.end_id
    assert written.rewards.sum() > 0 and not written.mask.all()
    for ids, mask, reward in zip(written.ids[:, hacking.PROMPT :].tolist(), written.mask, written.rewards):
        length = ids.index(end) + 1 if end in ids else len(ids)
        assert mask.sum() == length and mask[:length].all()
        assert reward == sum(small.tokenizer.decode([i]).lower() in animals for i in ids[:length])
    with torch.no_grad():
        found = hacking.log_probs(small.model, written)
        logits = small.model(written.ids)[0]
    position, row = hacking.PROMPT + 4, 7
    expected = torch.log_softmax(logits[row, position - 1], -1)[written.ids[row, position]]
    assert found[row, 4] == pytest.approx(expected.item(), abs=1e-4)


# ---- the commands, and what the lesson says about them


@cache
def printed(command: str, *options: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setenv("COLUMNS", "200")
        run_measurement(command, options)
    return out.getvalue()


def numbers(command: str, row: str) -> list[float]:
    """Those of all rows that begin so, in the command's output with its own options."""
    rows = [
        line.strip()[len(row) :]
        for line in printed(command).splitlines()
        if re.match(rf"\s*{re.escape(row)}(\s|$)", line)
    ]
    return [
        float(word.strip("%").replace(",", ""))
        for rest in rows
        for word in rest.split()
        if re.fullmatch(r"[\d.,]+%?", word)
    ]


@pytest.mark.thorough
def test_each_lab_runs_and_repeats_with_its_seed():
    assert {f"tuning_{name}" for name in LABS.values()} == {
        name for name in list_measurements() if name.startswith("tuning_")
    }
    for name in LABS.values():
        once, other = (printed(f"tuning_{name}", "--pretraining", "4", "--steps", "2", "--seed", seed) for seed in "01")
        printed.cache_clear()
        assert once == printed(f"tuning_{name}", "--pretraining", "4", "--steps", "2", "--seed", "0") != other


@pytest.mark.thorough
def test_a_far_task_needs_rank_and_a_near_one_does_not():
    ranks = [numbers("tuning_rank", f"rank {rank}") for rank in (1, 2, 4, 8)]
    full = numbers("tuning_rank", "all weights")
    for column in (3, 4):  # backwards, twice
        falling = [row[column] for row in (*ranks, full)]
        assert falling == sorted(falling, reverse=True) and falling[0] > 3 * falling[-2]
    for column in (1, 2):  # one name
        near = [row[column] for row in ranks]
        assert max(near) < 1.05 * min(near) < 0.95 * numbers("tuning_rank", "before")[column]
        assert numbers("tuning_rank", "rank 1, head only")[column] < 1.05 * full[column] < 0.98 * min(near)


@pytest.mark.thorough
def test_what_learns_more_forgets_more_and_stories_that_are_mixed_in_help():
    command = "tuning_forgetting"
    before, full, slow, mixed, adapter, adapter_mixed, head, off = (
        numbers(command, row)
        for row in ("before", "all weights", "a tenth of the learning rate", "all weights, stories mixed in", "rank 8", "rank 8, stories mixed in", "rank 1, head only", "rank 8, the adapter taken off")
    )  # fmt: skip
    assert before == off and full[1] > 1.2 * slow[1] > 1.2 * before[1] and adapter[1] < 1.1 * before[1] < 0.9 * head[1]
    assert adapter[3] > 100 * before[3] and full[3] > 100 * mixed[3] and adapter[3] > 100 * adapter_mixed[3]


@pytest.mark.thorough
def test_a_reward_is_cheated_and_the_penalty_holds_it():
    command = "tuning_hacking"
    start, (animals, _, judged, different) = numbers(command, "0")[:4], numbers(command, "30")
    assert animals > 15 and judged > 50 * start[2] and different < 30 < start[3]
    by_weight = [numbers(command, "0")[4:], *(numbers(command, weight) for weight in ("0.1", "0.3", "1"))]
    for column in (0, 1, 2):
        falling = [row[column] for row in by_weight]
        assert falling == sorted(falling, reverse=True)
    assert by_weight[-1][2] < 3 * start[2] and by_weight[-1][0] > start[0]


@pytest.mark.thorough
def test_swapped_labels_are_learned_by_heart():
    rows = [
        [float(word.strip("%").replace(",", "")) for word in line.split() if word != "%"]
        for line in printed("tuning_noise").splitlines()
        if " % " in line
    ]
    assert [row[:2] for row in rows] == [[0, 400], [10, 400], [25, 400], [25, 1600], [50, 400]]
    clean, few, quarter, more, half = rows
    assert min(row[2] for row in (clean, few, quarter, half)) > 90 > more[2]
    assert clean[3] > few[3] > quarter[3] > half[3] and more[3] > quarter[3]
    assert abs(half[3] - 50) < 10 < clean[3] - quarter[3]


@pytest.mark.thorough
def test_a_biased_set_does_not_show_who_looks_at_the_question():
    for view in preferences.VIEWS:
        rows = [line.split() for line in printed("tuning_blind").splitlines() if line.strip().startswith(view)]
        biased, balanced = ([int(cell.strip("%")) for cell in row[-2:]] for row in rows)
        assert biased[0] > 95 and abs(biased[1] - 50) < 10
        assert balanced[1] > 75 if view == "question and answer" else abs(balanced[1] - 50) < 10


@pytest.mark.thorough
@pytest.mark.parametrize("lab", LABS)
def test_the_tables_of_a_lab_are_nearly_what_its_command_prints(lab):
    """On other machines, the models round differently from the first step on, so the numbers are only of the same size."""
    text = "".join(path.read_text(encoding="utf-8") for path in EXERCISES.glob("ch17_*.md"))
    section = text[text.index(f"## Lab {lab}:") :].split("\n## ")[0]
    rows = [
        line.replace("|", " ").split() for line in section.splitlines() if line.startswith("| ") and "---" not in line
    ]
    lines = [line.split() for line in printed(f"tuning_{LABS[lab]}").splitlines()]
    assert len(rows) > 5
    assert [row for row in rows if not any(agree(row, line) for line in lines)] == []


def agree(row: list[str], line: list[str]) -> bool:
    return len(row) == len(line) and all(a == b or close(a, b) for a, b in zip(row, line))


def close(said: str, measured: str) -> bool:
    """Within 12 points, or a factor of 2, or a factor of 10 for numbers that are large because a model is bad."""
    try:
        one, other = (float(word.strip("%").replace(",", "")) for word in (said, measured))
    except ValueError:
        return False
    if said.endswith("%"):
        return measured.endswith("%") and abs(one - other) <= 12
    return ("." in said or "," in said) and abs(math.log((one + 0.1) / (other + 0.1))) <= math.log(10 if min(one, other) > 20 else 2)
