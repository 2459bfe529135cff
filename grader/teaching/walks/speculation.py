"""A small model guesses, and a larger one judges: what is kept, what is refused, and how many passes that saves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.corpora import SENTENCES
from grader.teaching.drawing.charts import curves, heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import GPT_PARTS, TOKENIZING, TRAINING, counted_passes, small_gpt, tokenizer_and_batch, train
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import Tensor, nn

SAMPLING = ("sample_next_token", "generate")  # greedily, so that no filter is called
REQUIRED_EXERCISES = (*TOKENIZING, *GPT_PARTS, *TRAINING, *SAMPLING, "count_parameters", "residual_distribution", "accept_drafts", "generate_speculative")
NEXT_STEP = "Next: `headway walk paging` shows how a server stores the caches of several texts."

PROMPT = "the"
STEPS, DRAFT_STEPS = 120, 16
ROUNDS, DRAFTED = 3, 4  # rounds that are shown, and the tokens of each
WORDS = 6  # shown of a distribution
NEW, N_DRAFTS = 8, (1, 2, 3, 4, 6)  # tokens of each text, and lengths of a round
DRAWS = 400


@dataclass(frozen=True)
class Guess:
    """One drafted token of a round that is shown."""

    word: str
    target: float  # its probability for the model
    draft: float  # and for the draft
    fate: str  # "kept", "refused" or "not considered"


@dataclass(frozen=True)
class Round:
    before: str
    guesses: list[Guess]
    written: list[str]  # the words that the round adds


@dataclass(frozen=True)
class Numbers:
    losses: tuple[float, float]  # of the model and of the draft
    sizes: tuple[int, int]  # parameters
    shapes: tuple[tuple[int, ...], tuple[int, ...]]  # of the two tables of probabilities
    rounds: list[Round]
    words: list[str]  # the likeliest words after the prompt, for either model
    target: list[float]
    draft: list[float]
    kept: list[float]
    residual: list[float]
    refused: float  # the probability that a guess is refused after the prompt
    shares: list[float]  # how often each word came first, of DRAWS texts
    same: int  # texts that equal those of generate, of all
    texts: int
    passes: dict[int, int]  # by the length of a round: passes of the model for all texts
    tokens: int  # that all texts have


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train both models, play one round, and count passes."""
    tokenizer, batch = tokenizer_and_batch(parts)
    model = small_gpt(parts, tokenizer.vocab_size, seed)
    loss = train(parts, model, batch, STEPS, report_progress, lr=5e-3, what="training the model")[-1]
    draft = small_gpt(parts, tokenizer.vocab_size, seed + 1, d_model=16, n_layers=1)
    draft_loss = train(parts, draft, batch, DRAFT_STEPS, report_progress, lr=2e-2, what="training the draft")[-1]
    ids = torch.tensor([tokenizer.encode(PROMPT)])
    rounds, shapes = _rounds(parts, model, draft, tokenizer, ids, seed)
    target, other = _chances(model, ids)[-1], _chances(draft, ids)[-1]
    shown = torch.maximum(target, other).topk(WORDS).indices.tolist()
    kept, residual = torch.minimum(target, other), parts.residual_distribution(target, other)
    shares = torch.zeros_like(target)
    generator = torch.Generator().manual_seed(seed)
    with report_progress("writing short texts", DRAWS) as step:
        for _ in range(DRAWS):
            shares[parts.generate_speculative(model, draft, ids, 2, 1, generator=generator)[0, ids.size(1)]] += 1 / DRAWS
            step()
    prompts = [torch.tensor([tokenizer.encode(" ".join(sentence.split()[:2]))]) for sentence in SENTENCES]
    plain = [parts.generate(model, prompt, NEW, temperature=0) for prompt in prompts]
    passes, same = {}, 0
    for n_draft in N_DRAFTS:
        with counted_passes(model) as counted:
            texts = [parts.generate_speculative(model, draft, prompt, NEW, n_draft, temperature=0) for prompt in prompts]
        passes[n_draft] = len(counted)
        same += sum(torch.equal(one, other_text) for one, other_text in zip(texts, plain))
    return Numbers(
        losses=(loss, draft_loss),
        sizes=(parts.count_parameters(model), parts.count_parameters(draft)),
        shapes=shapes,
        rounds=rounds,
        words=[tokenizer.decode([token]) for token in shown],
        target=target[shown].tolist(),
        draft=other[shown].tolist(),
        kept=kept[shown].tolist(),
        residual=residual[shown].tolist(),
        refused=1 - kept.sum().item(),
        shares=shares[shown].tolist(),
        same=same,
        texts=len(prompts) * len(N_DRAFTS),
        passes=passes,
        tokens=NEW * len(prompts),
    )


def _rounds(parts: Parts, model: nn.Module, draft: nn.Module, tokenizer: Any, ids: Tensor, seed: int) -> tuple[list[Round], tuple]:
    """The first rounds of a text: the drafted tokens with what happens to each, and the words that the round adds. The shapes of the probabilities."""
    generator, rounds = torch.Generator().manual_seed(seed), []
    shapes: tuple = ()
    for _ in range(ROUNDS):
        text, rows = ids, []
        for _ in range(DRAFTED):
            rows.append(_chances(draft, text)[-1])
            text = torch.cat([text, torch.multinomial(rows[-1], 1, generator=generator)[None]], dim=1)
        target, other, drafted = _chances(model, text)[-DRAFTED - 1 :], torch.stack(rows), text[0, ids.size(1) :].tolist()
        written = parts.accept_drafts(target, other, drafted, generator)
        kept = len(written) - 1  # the last one is a replacement, or the model's own token
        fates = ["kept" if i < kept else "refused" if i == kept else "not considered" for i in range(DRAFTED)]
        guesses = [Guess(tokenizer.decode([token]), target[i, token].item(), other[i, token].item(), fates[i]) for i, token in enumerate(drafted)]
        rounds.append(Round(tokenizer.decode(ids[0].tolist()), guesses, [tokenizer.decode([token]) for token in written]))
        shapes = (tuple(target.shape), tuple(other.shape))
        ids = torch.cat([ids, torch.tensor([written])], dim=1)
    return rounds, shapes


@torch.no_grad()
def _chances(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids)[0][0].softmax(-1)


def print_walk(page: WalkPage, n: Numbers) -> None:
    page.step("Two models")
    page.say("Both have read the same twenty short sentences. The draft is smaller, and it has learned for a shorter time:")
    rows = [["model", f"{n.sizes[0]:,}", f"{n.losses[0]:.2f}"], ["draft", f"{n.sizes[1]:,}", f"{n.losses[1]:.2f}"]]
    page.table(rows, ["", "parameters", "loss"])
    page.say("The text will be the model's. The draft only saves it work.")

    page.step("Rounds of guesses", f"{shape(n.shapes[0])} and {shape(n.shapes[1])}")
    page.say(f"In each round the draft writes {DRAFTED} words, and one pass of the model gives its own probability of each:")
    for number, one in enumerate(n.rounds):
        if number:
            page.blank()
        page.line(one.before)
        rows = [[guess.word, f"{guess.draft:.3f}", f"{guess.target:.3f}", f"{min(1.0, guess.target / guess.draft):.3f}", guess.fate] for guess in one.guesses]
        page.table(rows, ["drafted", "draft", "model", "chance to stay", ""])
        kept = sum(guess.fate == "kept" for guess in one.guesses)
        if kept == DRAFTED:
            page.say(f"All {DRAFTED} words stay, and the model's last row adds `{one.written[-1]}`.")
        else:
            page.say(f"{kept} of {DRAFTED} words stay; `{one.guesses[kept].word}` is replaced by `{one.written[-1]}`.")
    page.say("Words after a refused one are not considered: they continued a text that does not exist any more.")

    page.step("Where a replacement comes from")
    page.say(f"The likeliest words after {PROMPT!r}. A drafted word is kept with the smaller of both probabilities; the residual fills the rest:")
    table = [[word, *(f"{value:.3f}" for value in values)] for word, *values in zip(n.words, n.draft, n.target, n.kept, n.residual)]
    page.table(table, ["", "draft", "model", "drafted and kept", "residual"])
    page.say(f"A guess is refused in {n.refused:.1%} of all cases, and then a word is drawn from the residual. Kept and replaced words together:")
    table = [[word, f"{keep + n.refused * rest:.3f}", f"{share:.3f}"] for word, keep, rest, share in zip(n.words, n.kept, n.residual, n.shares)]
    page.table(table, ["", "kept + refused · residual", f"share of {DRAWS} texts"])
    page.say("The middle column is the model's probability, exactly. The right one was counted, so it is only near it.")

    page.step("How many passes that takes")
    page.say(f"{n.tokens // NEW} prompts, {NEW} new words each, at temperature 0. generate needs {n.tokens} passes of the model for them:")
    page.table([[size, passes, f"{n.tokens / passes:.2f}"] for size, passes in n.passes.items()], ["words a round", "passes", "words a pass"], left=0)
    if n.same == n.texts:
        page.say(f"All {n.texts} texts are those of generate, word for word.")
    else:
        page.say(f"{n.texts - n.same} of {n.texts} texts differ from those of generate, but they should not.")
    best = [str(size) for size, count in n.passes.items() if count == min(n.passes.values())]
    page.say(
        f"Rounds of {' and of '.join(best)} need the fewest passes here. Longer rounds draft more words that may be dropped, and each drafted word costs a pass of "
        "the draft. So the best length depends on how often the draft is right, and how cheap it is."
    )


def draw(n: Numbers) -> str:
    points = {"speculative": [(size, n.tokens / passes) for size, passes in n.passes.items()], "one by one": [(size, 1.0) for size in n.passes]}
    rows = [n.draft, n.target, n.kept, n.residual]
    return stack_pictures(
        [
            heatmap(rows, ["draft", "model", "kept", "residual"], n.words, f"The next word after {PROMPT!r}"),
            curves(points, "Words that one pass of the model writes", x_name="words a round", y_name="words a pass", dots=True),
        ],
        "Guesses, and what they save",
    )
