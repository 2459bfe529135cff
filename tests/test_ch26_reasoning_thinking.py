"""Chapter 26: how long a model thinks before it answers."""

from __future__ import annotations

from collections import Counter

import torch
from distributions import check_frequencies
from grader.execution.proxy import load
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, refuses, same
from hypothesis import given, settings
from small_models import randomise_for_text
from strategies import distinct, seeds, token_ids
from table_models import MODES_AT_FIRST, TableModel
from torch import nn
from torch.nn import functional as F

few = settings(max_examples=2)  # what is broken here is broken at every example
END, EOS, GO_ON, V = 9, 0, 7, 10  # the end of thinking, the end of an answer, and a token that makes the model go on


def chain(*ids):
    """A table of logits in which each of these ids is followed by the next one, and the last one by itself."""
    table = torch.zeros(V, V)
    table[:, ids[-1]] = 4.0
    for one, following in zip(ids, ids[1:]):
        table[one] = torch.zeros(V)
        table[one, following] = 8.0
    return table


def chains(*all_ids):
    """The same for several chains; what is in none of them is followed by the last id of the first."""
    table = chain(*all_ids[0])
    for ids in all_ids[1:]:
        for one, following in zip(ids, ids[1:]):
            table[one] = torch.zeros(V)
            table[one, following] = 8.0
    return table


def think(learner, table, prompt, minimum, maximum, continue_ids=(GO_ON,), kind="tuple", **options):
    """What a model with this table thinks and answers."""
    model = learner.bring(TableModel)(table, kind)
    return learner.think(model, prompt, END, minimum, maximum, list(continue_ids), **options)


def compare(got, thinking, answer, when):
    """Both lists that `think` returned."""
    holds(isinstance(got, tuple | list) and len(got) == 2, f"`think` should return two lists, thinking and answer, {when}")
    same([list(part) if isinstance(part, tuple) else part for part in got], [thinking, answer], f"(thinking, answer) {when}")


def check_stories(learner, cases):
    """Each (table, prompt, minimum, maximum, options, thinking, answer, when) that has another end."""
    got = [think(learner, table, prompt, low, high, **options) for table, prompt, low, high, options, *_ in cases]
    for mine, (*_, thinking, answer, when) in zip(got, cases):
        compare(mine, thinking, answer, when)


STORY = chain(1, 2, 3, END, 5, 6, EOS)  # after 1, the model thinks 2 and 3, ends, and answers 5 and 6


@exercise("think", weight=2)
def test_the_model_thinks_until_it_writes_the_end_token(learner):
    """The end token is in neither list, and what follows is the answer, up to eos_id, which is not in it either. A model may end at once, and may return logits or a tuple."""
    check_stories(learner, [
        (STORY, [1], 0, 8, {"eos_id": EOS}, [2, 3], [5, 6], "of a model that thinks 2, 3 and answers 5, 6"),
        (STORY, (4, 1), 0, 8, {"eos_id": EOS}, [2, 3], [5, 6], "if the prompt is a tuple"),
        (STORY, [4, 1], 2, 8, {"eos_id": EOS}, [2, 3], [5, 6], "if the model ends after exactly `minimum` tokens"),
        (STORY, [3], 0, 8, {"eos_id": EOS}, [], [5, 6], "of a model that ends at once"),
        (STORY, [1], 0, 3, {"eos_id": EOS, "kind": "logits"}, [2, 3], [5, 6], "of a model that returns logits alone"),
        (chain(1, 2, END, EOS), [1], 0, 8, {"eos_id": EOS}, [2], [], "of a model that answers nothing"),
        (STORY, [1, END, 6, 1], 0, 8, {"eos_id": EOS}, [2, 3], [5, 6], "if the end token is in the prompt"),
    ])  # fmt: skip


@exercise("think", weight=3)
def test_an_end_that_comes_too_early_is_replaced(learner):
    """While there are fewer than `minimum` tokens, the end token is not kept: continue_ids are written, the model reads them and goes on, as often as it takes. They count as thinking."""
    more = chains((1, 2, END, 5, EOS), (GO_ON, 3, 4, END))
    stubborn, long = chains((1, 2, END, 5, EOS), (GO_ON, END)), chains((1, END, 5, EOS), (GO_ON, 8), (8, 3, END))
    check_stories(learner, [
        (more, [1], 2, 9, {"eos_id": EOS}, [2, GO_ON, 3, 4], [5], "if the model ends after 1 token and the minimum is 2"),
        (more, [1], 4, 9, {"eos_id": EOS}, [2, GO_ON, 3, 4], [5], "if the model ends after 1 token and, with the tokens of continue_ids, again after 4, the minimum"),
        (more, [1], 5, 9, {"eos_id": EOS}, [2, GO_ON, 3, 4, GO_ON, 3, 4], [5], "if the model ends twice before the minimum of 5"),
        (stubborn, [1], 4, 9, {"eos_id": EOS}, [2, GO_ON, GO_ON, GO_ON], [5], "of a model that ends again and again, with minimum = 4"),
        (long, [1], 3, 9, {"eos_id": EOS, "continue_ids": [GO_ON, 8]}, [GO_ON, 8, 3], [5], "with continue_ids of two tokens"),
        (long, [1], 1, 9, {"eos_id": EOS, "continue_ids": [8, 6, GO_ON, 3]}, [8, 6, GO_ON, 3], [5], "with continue_ids of four tokens"),
        (more, [2], 1, 9, {"eos_id": EOS}, [GO_ON, 3, 4], [5], "if the first token is the end"),
        (more, [2], 0, 9, {"eos_id": EOS}, [], [5], "if the first token is the end, with minimum = 0"),
    ])  # fmt: skip


@exercise("think", weight=3)
def test_a_model_that_thinks_too_long_has_to_answer(learner):
    """After `maximum` tokens the end token is written for the model, and the model reads it: the answer follows from it."""
    endless = chains((1, 2, 3, 2), (END, 5, 6, EOS))
    check_stories(learner, [
        (endless, [1], 0, 4, {"eos_id": EOS}, [2, 3, 2, 3], [5, 6], "of a model that never ends, with maximum = 4"),
        (endless, [1], 0, 1, {"eos_id": EOS}, [2], [5, 6], "of a model that never ends, with maximum = 1"),
        (endless, [1], 3, 3, {"eos_id": EOS}, [2, 3, 2], [5, 6], "with minimum = maximum = 3"),
        (endless, [1], 0, 0, {"eos_id": EOS}, [], [5, 6], "with maximum = 0"),
        (STORY, [1], 0, 2, {"eos_id": EOS}, [2, 3], [5, 6], "of a model that would end after exactly `maximum` tokens"),
        (STORY, [1], 0, 1, {"eos_id": EOS}, [2], [5, 6], "of a model that would end after 2 tokens, with maximum = 1"),
        (endless, [1], 2, 40, {"eos_id": EOS}, [2, 3] * 20, [5, 6], "of a model that never ends, with maximum = 40"),
    ])  # fmt: skip


@exercise("think", weight=2)
def test_continue_ids_beyond_the_maximum_are_cut_off(learner):
    """If continue_ids would exceed `maximum`, what is too much is cut off, and the model has to answer."""
    early = chains((1, 2, END, 5, EOS), (GO_ON, END), (8, END))
    check_stories(learner, [
        (early, [1], 3, 3, {"eos_id": EOS, "continue_ids": [GO_ON, 8, 6]}, [2, GO_ON, 8], [5], "with maximum = 3 and continue_ids of three tokens after one"),
        (early, [1], 2, 2, {"eos_id": EOS, "continue_ids": [8, GO_ON, 6]}, [2, 8], [5], "with maximum = 2 and continue_ids of three tokens after one"),
        (early, [2], 1, 4, {"eos_id": EOS, "continue_ids": [6, 4, 8, GO_ON, 3, 3]}, [6, 4, 8, GO_ON], [5], "with maximum = 4 and continue_ids of six tokens"),
        (early, [1], 5, 5, {"eos_id": EOS, "continue_ids": [GO_ON, 8]}, [2, GO_ON, 8, GO_ON, 8], [5], "with minimum = maximum = 5 and two early ends"),
        (early, [1], 4, 4, {"eos_id": EOS, "continue_ids": [GO_ON, 8]}, [2, GO_ON, 8, GO_ON], [5], "with minimum = maximum = 4 and two early ends"),
        (early, [1], 3, 4, {"eos_id": EOS, "continue_ids": [GO_ON, 8]}, [2, GO_ON, 8], [5], "with continue_ids that fit"),
    ])  # fmt: skip


@exercise("think", weight=2)
def test_eos_ends_the_answer_and_not_the_thinking(learner):
    """eos_id is a token like any other in the prompt and while the model thinks; it may be 0, as here. Without one, the answer has max_answer_tokens tokens, by default 32, and with one at most as many."""
    thoughtful, endless = chain(1, EOS, 2, END, 5, 6, 6), chains((1, 2, END, 5, 6, 5))
    other = chain(1, 4, 2, END, 5, 6, 4)
    check_stories(learner, [
        (thoughtful, [1], 0, 8, {"eos_id": EOS, "max_answer_tokens": 3}, [EOS, 2], [5, 6, 6], "if eos_id is in the thinking"),
        (thoughtful, [EOS, 1], 3, 8, {"eos_id": EOS, "max_answer_tokens": 2, "continue_ids": [EOS, 1]}, [EOS, 2, EOS, 1, EOS, 2], [5, 6], "if eos_id is in the prompt and in continue_ids"),
        (other, [1], 0, 8, {"eos_id": 4}, [4, 2], [5, 6], "with eos_id = 4"),
        (STORY, [1], 0, 8, {"max_answer_tokens": 4}, [2, 3], [5, 6, EOS, EOS], "without eos_id, with max_answer_tokens = 4"),
        (endless, [1], 0, 8, {"eos_id": EOS}, [2], [5, 6] * 16, "of an answer without an end, with the default max_answer_tokens"),
        (endless, [1], 0, 8, {"eos_id": EOS, "max_answer_tokens": 1}, [2], [5], "with max_answer_tokens = 1"),
        (endless, [1], 0, 8, {"max_answer_tokens": 0}, [2], [], "with max_answer_tokens = 0"),
        (STORY, [1], 0, 8, {"eos_id": EOS, "max_answer_tokens": 2}, [2, 3], [5, 6], "of an answer that ends after exactly max_answer_tokens tokens"),
    ])  # fmt: skip


def spoken(think, prompt, end, minimum, maximum, continue_ids, ends, eos=None, stops=(), vocab=13, positions=None, max_len=6, kind="tuple", quiet=False, answer=5):
    """What a model thinks and answers whose likeliest token depends on its whole input, and what became of its modes.

    It says `end` if the text has one of the lengths `ends`, and eos at the lengths `stops`. With `positions` it has a config, and refuses a text
    longer than max_len if they are a table.
    """
    from types import SimpleNamespace

    class Speaker(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.drop, self.frozen = nn.Parameter(torch.tensor(3.0)), nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)).eval()
            self.always_eval, self.graph = True, False
            if positions is not None:
                self.config = SimpleNamespace(vocab_size=vocab, max_len=max_len, positions=positions)
                self.pos_emb = nn.Identity() if positions in ("learned", "sinusoidal") else None

        def forward(self, ids):
            T = ids.size(1)
            if positions in ("learned", "sinusoidal") and T > max_len:
                raise ValueError(f"the model was given {T} tokens, and its table of positions ends at max_len = {max_len}")
            self.always_eval = self.always_eval and not any(module.training for module in self.modules())
            mixed = ((ids + 1) * torch.arange(1, T + 1) ** 2).cumsum(1)  # every token counts, by its place
            says = (mixed * 5 + torch.arange(T)) % (vocab - 2)  # the last two are the special tokens
            says[:, -1] = end if T in ends else eos if T in stops else says[0, -1]
            logits = self.frozen(self.drop(self.gain * F.one_hot(says, vocab)))
            self.graph = self.graph or logits.requires_grad
            return logits if kind == "logits" else (logits, None)

    model = Speaker()
    before = [module.training for module in model.modules()]
    with torch.set_grad_enabled(not quiet):
        found = think(model, prompt, end, minimum, maximum, continue_ids, eos_id=eos, max_answer_tokens=answer)
        grad_mode = torch.is_grad_enabled() != quiet
    return {
        "text": found,
        "always eval": model.always_eval,
        "graph": model.graph,
        "modes": [module.training for module in model.modules()] == before,
        "grad mode": grad_mode,
    }


def listened(learner, reference, *arguments, **options):
    """Everything that `spoken` found with the learner's code, and the text with the reference's."""
    return learner.bring(spoken)(learner.think, *arguments, **options), reference.bring(spoken)(reference.think, *arguments, **options)["text"]


speech = distinct("T", "low", "high", T=(3, 4), low=(5, 6), high=(9, 11))


@exercise("think", weight=3)
@few
@given(n=speech, seed=seeds)
def test_every_token_follows_from_all_before_it(learner, reference, n, seed):
    """The model reads the prompt, the thinking so far, the end token and the answer so far, in this order and nothing else."""
    end, eos = 11, 12
    prompt, go_on = token_ids(seed, n.T, vocab=11).tolist(), token_ids(seed + 1, 2, vocab=11).tolist()
    cases = {
        "of a model that ends early, and then in time": ([n.T + 2, n.T + 7], [n.T + 11]),
        "of a model that ends early twice, and then too late": ([n.T, n.T + 3], []),
        "of a model that ends in time": ([n.T + n.low], [n.T + n.low + 3]),
        "of a model that never ends": ([], [n.T + n.high + 4]),
    }
    found = {when: listened(learner, reference, prompt, end, n.low, n.high, go_on, ends, eos, stops) for when, (ends, stops) in cases.items()}
    found["of a model that returns logits alone"] = listened(learner, reference, prompt, end, n.low, n.high, go_on, [n.T + 1], eos, [], kind="logits")
    for when, (got, expected) in found.items():
        compare(got["text"], *expected, when)


@exercise("think", weight=2)
def test_a_long_text_does_not_end_the_thinking(learner, reference):
    """A model with a table of positions gets the last max_len tokens of a longer text, as with `generate`; with RoPE it gets the whole text, and thinks on."""
    prompt, found = [3, 1, 4, 1, 5], []
    for positions in ("learned", "sinusoidal", "rope"):
        found.append((positions, *listened(learner, reference, prompt, 11, 3, 9, [2, 6], [], positions=positions)))
    gpts = []
    for positions in ("learned", "rope"):
        mine, model = (who.GPT(who.GPTConfig(13, 7, 8, 2, 1, 5, positions, False)) for who in (learner, reference))
        load(mine, randomise_for_text(model, 5))
        arguments = prompt, 11, 2, 9, [2, 6], None, 4
        gpts.append((positions, learner.think(mine, *arguments), reference.think(model, *arguments)))
    for positions, got, expected in found:
        compare(got["text"], *expected, f"of a model with positions={positions!r} and max_len = 6")
    for positions, got, expected in gpts:
        compare(got, *expected, f"of a GPT with positions={positions!r} and max_len = 7")


@exercise("think", weight=2)
def test_thinking_leaves_the_model_as_it_is(learner, reference):
    """The model runs in eval mode and without gradient. Afterwards each module has its old mode, and gradients are on or off as before."""
    arguments = [2, 7, 1], 11, 2, 6, [4], [4]
    got, expected = listened(learner, reference, *arguments)
    quiet, _ = listened(learner, reference, *arguments, quiet=True)
    model = learner.bring(TableModel)(STORY)
    text, modes = learner.think(model, [1], END, 0, 5, [GO_ON], EOS), model.modes()
    compare(got["text"], *expected, "of a model with dropout")
    compare(text, [2, 3], [5, 6], "of a model in train mode")
    holds(got["always eval"], "the model ran in train mode: with dropout it thinks otherwise each time")
    holds(not got["graph"], "the model ran with gradient, which keeps all intermediate results in memory, although they are never used")
    holds(got["modes"], "the model was in train mode, and a part of it in eval mode on purpose; afterwards a part is in another mode than before")
    same(modes, MODES_AT_FIRST, "the modes of the model, its dropout and its frozen part afterwards")
    holds(got["grad mode"] and quiet["grad mode"], "gradients are on or off in another way than before")


def drawn(think, end, table, temperature, many, seed, prompt=(0,)):
    """`many` tokens of thinking and of an answer by a model whose next token depends on nothing, with a generator of this seed or none."""

    class Always(nn.Module):
        def __init__(self):
            super().__init__()
            self.logits = nn.Parameter(table)

        def forward(self, ids):
            return self.logits.expand(*ids.shape, -1)

    options = {} if seed is None else {"generator": torch.Generator().manual_seed(seed)}
    return think(Always(), list(prompt), end, 0, many, [], max_answer_tokens=many, temperature=temperature, **options)


PROBABILITIES = (0.5, 0.3, 0.15, 0.05)


@exercise("think", weight=2)
def test_tokens_are_drawn_at_the_temperature(learner):
    """Thinking and answer are drawn with the model's probabilities at the given temperature; without one, each token is the likeliest one."""
    logits, many = torch.tensor([*PROBABILITIES, 0.0]).log(), 100
    found = {T: learner.bring(drawn)(learner.think, 4, logits, T, many, 5) for T in (1.0, 0.3)}
    greedy = learner.bring(drawn)(learner.think, 4, logits, 0.0, 5, 5)
    plain = think(learner, STORY, [1], 0, 8, eos_id=EOS)
    compare(greedy, [0] * 5, [0] * 5, "at temperature 0")
    compare(plain, [2, 3], [5, 6], "without a temperature")
    for T, (thinking, answer) in found.items():
        powers = [p ** (1 / T) for p in PROBABILITIES]
        shares = {token: power / sum(powers) for token, power in enumerate(powers)}
        for what, tokens in (("thinking", thinking), ("answer", answer)):
            same(len(tokens), many, f"the number of tokens of the {what}")
            check_frequencies(Counter(tokens), shares, f"the {what} at temperature {T}")


def repeated(think, vocab):
    """Whether equal seeds give equal texts, other seeds other ones, and no generator another text each time; for thinking and answer."""

    class Even(nn.Module):
        def __init__(self):
            super().__init__()
            self.unused = nn.Parameter(torch.zeros(1))

        def forward(self, ids):
            return torch.zeros(*ids.shape, vocab).index_fill(-1, torch.tensor([vocab - 1]), -1e9)

    def text(seed=None):
        options = {} if seed is None else {"generator": torch.Generator().manual_seed(seed)}
        return think(Even(), [1, 2], vocab - 1, 0, 16, [], max_answer_tokens=16, temperature=1.0, **options)

    one, again, other, free, freely = text(1), text(1), text(2), text(), text()
    varied = [len(set(part)) > 3 for part in one]
    return {"again": [a == b for a, b in zip(one, again)], "other": [a != b for a, b in zip(one, other)], "varied": varied, "parts": one[0] != one[1], "free": free != freely}


@exercise("think", weight=2)
def test_the_same_generator_gives_the_same_thoughts(learner):
    """Two generators with the same seed give the same thinking and answer, with another seed others. Each token has its own draw, also that of the answer; without a generator the text differs each time."""
    found = learner.bring(repeated)(learner.think, 12)
    for part, (again, other, varied) in zip(("thinking", "answer"), zip(found["again"], found["other"], found["varied"])):
        holds(again, f"two generators with the same seed gave different texts in the {part}: a random number does not come from the generator")
        holds(other, f"two generators with different seeds gave the same {part}: the seed has no effect")
        holds(varied, f"the {part} repeats the same tokens, as if the generator was reset for each of them")
    holds(found["parts"], "thinking and answer are the same tokens, as if the generator was reset between them")
    holds(found["free"], "without a generator the text is the same each time, as if a fixed seed was set")


def on_second_device(think, prompt, end, continue_ids):
    """What a model on the CPU thinks while tensors without a device are made elsewhere, and whether it was handed ids from there."""
    seen = []

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.tensor(3.0))

        def forward(self, ids):
            seen.append(ids.device.type)
            if ids.device.type != "cpu":
                raise RuntimeError("the ids are on another device than the model")
            return self.gain * F.one_hot((ids * 2 + 1) % 7, 9)

    model = Counting()
    plain = think(model, prompt, end, 1, 4, continue_ids, max_answer_tokens=3)
    seen.clear()
    try:
        with torch.device("meta"):
            think(model, prompt, end, 1, 4, continue_ids, max_answer_tokens=3)
    except (RuntimeError, NotImplementedError):  # values cannot be moved away from `meta`: that may be right on other devices
        pass
    return {"text": plain, "right device": all(device == "cpu" for device in seen)}


@exercise("think")
def test_ids_are_made_on_the_models_device(learner):
    """The ids that the model reads are on its own device, wherever tensors are made by default."""
    found = learner.bring(on_second_device)(learner.think, [3, 5], 8, [2])
    compare(found["text"], [4, 2, 5, 4], [3, 0, 1], "of a model that writes 2 · id + 1, modulo 7")
    holds(found["right device"], "the model was given ids on another device than its own; make them on the device of its parameters")


@exercise("think")
def test_limits_that_cannot_be_are_refused(learner):
    """A minimum above the maximum raises a ValueError that names both. Without continue_ids, a minimum above 0 raises one that names continue_ids; with minimum = 0 they are not needed."""
    fine = [think(learner, STORY, [1], 2, 2, eos_id=EOS), think(learner, STORY, [1], 0, 5, (), eos_id=EOS)]
    for low, high in ((5, 3), (1, 0)):
        refuses(lambda low=low, high=high: think(learner, STORY, [1], low, high), naming={"minimum": low, "maximum": high}, because="the minimum is above the maximum")
    for low in (1, 2):
        refuses(lambda low=low: think(learner, STORY, [1], low, 4, ()), naming=("continue_ids",), because="nothing can be written if the model ends too early")
    compare(fine[0], [2, 3], [5, 6], "with minimum = maximum = 2")
    compare(fine[1], [2, 3], [5, 6], "with minimum = 0 and no continue_ids")
