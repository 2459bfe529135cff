"""Chapter 9, fourth part: random draws while generating, and the device of the text."""

import torch
from devices_and_dtypes import check_device_of_result
from grader.runner.marks import exercise
from grader.verdict.comparing import holds, same
from hypothesis import given, settings
from strategies import distinct, seeds, token_ids
from torch import nn

few = settings(max_examples=2)  # what is broken here is broken at every example


def draws(generate, probs, new, options, rows=3000, seed=None):
    """The approximate share of each word in many drawn tokens, in steps of 0.1 around its share in `asked`, and which words occur at all."""

    class Always(nn.Module):
        def forward(self, ids):
            return torch.tensor(probs).log().expand(*ids.shape, -1)

    options = dict(options)
    asked = options.pop("asked")
    text = generate(Always(), torch.zeros(rows, 1, dtype=torch.long), new, **options)[:, 1:]
    shares = [float((text == word).sum()) / text.numel() for word in range(len(probs))]
    return [round(a + 0.1 * round((share - a) / 0.1), 3) for a, share in zip(asked, shares)], [share > 0 for share in shares]


def powered(probs, exponent):
    raised = [p**exponent for p in probs]
    return [p / sum(raised) for p in raised]


@exercise("generate", weight=3)
@few
@given(seed=seeds)
def test_tokens_are_drawn_with_the_given_options(learner, seed):
    """Tokens are drawn with the model's probabilities; temperature, top_k and top_p are passed on to the choice."""
    order = torch.randperm(4, generator=torch.Generator().manual_seed(seed)).tolist()
    probs = [(0.5, 0.3, 0.15, 0.05)[i] for i in order]
    cases = [
        ({}, probs, "by default"),
        ({"temperature": 0.4}, powered(probs, 2.5), "at temperature 0.4"),
        ({"temperature": 3.0}, powered(probs, 1 / 3), "at temperature 3.0"),
        ({"top_k": 2}, [p / 0.8 if p >= 0.3 else 0.0 for p in probs], "with top_k=2"),
        ({"top_p": 0.9}, [p / 0.95 if p >= 0.1 else 0.0 for p in probs], "with top_p=0.9"),
    ]
    found = [learner.bring(draws)(learner.generate, probs, 1, options | {"asked": asked}) for options, asked, _ in cases]
    for (options, asked, when), (shares, occurs) in zip(cases, found):
        same(shares, [round(a, 3) for a in asked], f"the rough share of each word {when}, where p = {[round(p, 2) for p in probs]},")
        if options.keys() & {"top_k", "top_p"}:
            same(occurs, [a > 0 for a in asked], f"whether each word occurs at all {when}, where p = {[round(p, 2) for p in probs]},")


def chances(generate, rows, vocab):
    """Is the text the same with the same seed, another one with another seed or with none, and drawn again at each step and in each row?"""

    class Even(nn.Module):
        def forward(self, ids):
            return torch.zeros(*ids.shape, vocab)

    def text(seed=None):
        ids, options = torch.zeros(rows, 1, dtype=torch.long), {} if seed is None else {"generator": torch.Generator().manual_seed(seed)}
        return generate(Even(), ids, 12, **options)[:, 1:]

    one, again, other, free, freely = text(1), text(1), text(2), text(), text()
    steps, rows = (len({tuple(part.tolist()) for part in one.unbind(axis)}) for axis in (1, 0))
    return torch.equal(one, again), not torch.equal(one, other), steps > 2, rows > 2, not torch.equal(free, freely)


@exercise("generate", weight=2)
@few
@given(n=distinct("B", "V", B=(4, 6), V=(7, 9)))
def test_the_same_generator_gives_the_same_text(learner, n):
    """Two generators with the same seed give the same text; with another seed or without a generator it differs. Each step and row has its own draw."""
    again, other, steps, rows, free = learner.bring(chances)(learner.generate, n.B, n.V)
    holds(other, "two generators with different seeds gave the same text: the seed has no effect")
    holds(again, "two generators with the same seed gave different texts: a random number does not come from the generator")
    holds(steps, "every step draws the same tokens, as if the generator was reset each time")
    holds(rows, "all rows draw the same tokens; each row needs its own random numbers")
    holds(free, "without a generator the text is the same each time, as if a fixed seed was set")


def writer(generate, vocab, eos):
    """Greedy generation as a module that contains a table of logits, so that both can be on another device."""

    class Writer(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(vocab, vocab)
            nn.init.eye_(self.table.weight)

        def forward(self, ids):
            return generate(self.table, ids, 3, eos_id=eos, temperature=0.0)

    return Writer()


@exercise("generate")
def test_the_text_stays_on_its_device(learner):
    """Tensors made for each row are on the device of the ids; each token stays int64."""
    ids = token_ids(3, 3, 4, vocab=7)
    text = learner.bring(writer)(learner.generate, 8, 7)
    got, expected = text(ids), torch.cat([ids, ids[:, -1:].expand(3, 3)], dim=1)
    same(got, expected, "the text of a model that repeats the last token")
    check_device_of_result(learner, expected, text, ids)
