"""The measurements of lesson 17's labs: what they compute is what they say; and the lesson's tables."""

from __future__ import annotations

import math
import re

import pytest
import torch
from grader.chapters.ch17_fine_tuning import adapters, hacking, preferences
from grader.chapters.story_model import SmallModel, perplexity, train_small_model
from grader.course.syllabus import EXERCISES, load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import resolve
from lab_tables import missing_rows, numbers_in, printed
from lesson_tables import table_in

LABS = {"rank": "rank", "forgetting": "forgetting", "animals": "hacking", "swapped": "noise", "blind": "blind"}  # of the lesson, of the command


def nothing(*arguments: object) -> None:
    pass


@pytest.fixture(scope="module")
def small() -> SmallModel:
    """A model after a few steps, so that it still writes nearly every word."""
    target = resolve("solutions")
    package = ChapterPackage([target.source(chapter.name) for chapter in load_syllabus().chapters if target.has(chapter.name)], "labs")
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
    assert adapters.backwards(small, [start, *ids, end]) == [start, *small.tokenizer.encode(". hat red a Tom gave Anna"), end]


def test_tuning_leaves_the_model_as_it_was_and_the_adapter_comes_off(small):
    before = {name: value.clone() for name, value in small.model.state_dict().items()}
    model = adapters.tuned(small, adapters.backwards, adapters.ADAPTER, 3, 0, nothing)
    without = adapters.without_adapter(small, model)
    held_out = [text.ids for text in small.held_out[:50]]
    assert perplexity(small, model, held_out) != perplexity(small, without, held_out) == perplexity(small, small.model, held_out)
    for state in (small.model.state_dict(), without.state_dict()):
        assert list(state) == list(before) and all(state[name].equal(value) for name, value in before.items())
    full = adapters.tuned(small, adapters.backwards, adapters.FULL, 3, 0, nothing)
    assert perplexity(small, full, held_out) != perplexity(small, small.model, held_out)


# ---- pairs


def test_in_balanced_pairs_every_answer_is_chosen_once_and_rejected_once(small):
    pairs = preferences.make_pairs(small.held_out, seeded())
    own = {tuple(text.question): text.answer for text in small.held_out}
    assert all(own[tuple(pair.question)] == pair.chosen for pair in pairs) and len(own) <= len(pairs) == len(small.held_out)
    assert sorted(pair.chosen for pair in pairs) == sorted(pair.rejected for pair in pairs)
    biased = preferences.longer_is_better(small.held_out, seeded())
    assert len(biased) > 100 and all(len(pair.chosen) > len(pair.rejected) for pair in biased)


def test_exactly_this_share_is_swapped(small):
    pairs = preferences.make_pairs(small.texts[:200], seeded())
    for percent in (0, 25, 50):
        swapped = preferences.swap(pairs, percent, seeded())
        assert sum(one != other for one, other in zip(pairs, swapped)) == 2 * percent
        assert all(other in (one, preferences.Pair(one.question, one.rejected, one.chosen)) for one, other in zip(pairs, swapped))


def test_log_probabilities_are_those_of_the_answers_alone(small):
    pairs = preferences.make_pairs(small.texts[:5], seeded())
    with torch.no_grad():
        found = torch.stack(preferences.log_probs(small, small.model, pairs), 1)
        for row, pair in zip(found, pairs):
            for value, answer in zip(row, (pair.chosen, pair.rejected)):
                logits = small.model(torch.tensor([[*pair.question, *answer]]))[0][0, len(pair.question) - 1 : -1]
                expected = torch.log_softmax(logits, -1).gather(1, torch.tensor(answer)[:, None]).sum()
                assert value == pytest.approx(expected.item(), abs=1e-3)


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


# ---- the commands


@pytest.mark.thorough
@pytest.mark.parametrize("lab", LABS)
def test_the_tables_of_a_lab_are_nearly_what_its_command_prints(lab):
    """On other machines, the models round differently from the first step on, so the numbers are only of the same size."""
    assert missing_rows("ch17", lab, f"tuning_{LABS[lab]}", close) == []


def spread(before: list[float], some: list[float], most: list[float]) -> list[float]:
    """What the KL weights 0.3 and 1 do to (animals, judge's perplexity): animals with 0.3 and with 1, perplexity with 0.3."""
    return [some[0] / before[0], most[0] / before[0], some[1] / before[1]]


def said_of_seeds() -> list[tuple[float, float]]:
    lesson = " ".join((EXERCISES / "ch17_fine_tuning.md").read_text(encoding="utf-8").split())
    sentence = r"0\.3 gave {} times as many animals as before, at {} times the judge's perplexity\. With 1 there were {} times as many\."
    found = re.search(sentence.replace("{}", r"([\d.]+) to ([\d.]+)"), lesson)
    some, judged, most = ((float(found[i]), float(found[i + 1])) for i in (1, 3, 5))
    return [some, most, judged]


def test_the_numbers_over_seeds_contain_those_of_the_lessons_tables():
    steps, weights = (table_in("ch17", "Lab animals: what does a reward really reward?", place) for place in (0, 1))
    rows = [[float(row[1]), float(row[3])] for row in (steps[0], weights[2], weights[3])]
    assert all(low - 0.05 <= number <= high + 0.05 for (low, high), number in zip(said_of_seeds(), spread(*rows), strict=True))


@pytest.mark.thorough
def test_a_lab_repeats_with_its_seed():
    once, again, other = (printed("tuning_noise", "--pretraining", "4", "--steps", "2", "--seed", seed) for seed in "001")
    assert once == again != other


def close(said: str, measured: str) -> bool:
    """Within 16 points (a model that can only guess differs by 15 from machine to machine), or a factor of 2, or a factor of 10 for numbers that are large because a model is bad."""
    if (numbers := numbers_in(said, measured)) is None:
        return False
    one, other = numbers
    if said.endswith("%"):
        return measured.endswith("%") and abs(one - other) <= 16
    return ("." in said or "," in said) and abs(math.log((one + 0.1) / (other + 0.1))) <= math.log(10 if min(one, other) > 20 else 2)
