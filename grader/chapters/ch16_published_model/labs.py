"""The measurements of lesson 16's labs, on the weights of SmolLM2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from grader.chapters.ch16_published_model.published.opening import Published, attention_weights, build, find_source
from grader.chapters.small_models import names_of
from grader.console.output import show_progress
from grader.execution.chapter_package import ChapterPackage
from grader.models.own_parts import OwnParts
from grader.teaching.measurements import result_table
from rich.table import Table
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

SENTENCE = "The capital of France is"
ANSWER = " Paris"
LENS_BLOCKS = (0, 1, 5, 10, 15, 20, 24, 25, 26, 27, 28, 29, 30)

PERIOD, TEXTS = 32, 4  # random tokens, repeated once
BEST_HEADS, DRAWS = 5, 5

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"
NAMES = (" Mary", " John")
PATCHED_BLOCKS = (0, 6, 12, 18, 19, 20, 21, 22, 23, 24, 29)

TEXT = """\
A bridge has to carry more than the people who cross it. It carries itself, the wind, the snow of a bad winter, and \
every mistake of those who built it. When the old stone bridge near our village was closed, an engineer came and \
walked over it for two days. She tapped the stones with a small hammer and wrote numbers into a notebook. The \
children asked her what she was listening for. "A stone that is tired sounds different," she said. In the end she \
found only three of them, all on the side where the river had washed away the ground. The repair took four weeks and \
cost less than a new roof for the school. On the first day after it was finished, a farmer drove his tractor across, \
stopped in the middle, and got out to look at the water. He said that he had crossed this bridge all his life and \
had never once thought about it. That, said the engineer, is how you know that a bridge is good.
"""


def open_published(chapters: ChapterPackage, *names: str) -> Published:
    """SmolLM2 on these chapters; PublishedProblem, with a sentence, if its weights are not installed."""
    source = find_source(None)
    parts = names_of(*(chapters.module(name) for name in (*names, "ch16_published_model")))
    return build(source, OwnParts(parts))


def ids_of(published: Published, text: str) -> Tensor:
    return torch.tensor([published.tokenizer.encode(text)])


def report_published_lens(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 16: what SmolLM2 would say after each block about the capital of France.

    Row 0 is the embedding alone. The rank of the answer is 1 if it is the likeliest of the 49,152 tokens.
    """
    published = open_published(chapters, "ch12_interpretability")
    [answer] = published.tokenizer.encode(ANSWER)
    lens = published.own.parts.logit_lens(published.model, ids_of(published, SENTENCE))[:, 0, -1]  # (31, V)
    rows = []
    for block in LENS_BLOCKS:
        best = torch.softmax(lens[block], -1).topk(3)
        tokens = [f"{published.tokenizer.decode([i])!r} {chance:.2f}" for chance, i in zip(*map(Tensor.tolist, best))]
        rows.append([str(block), *tokens, f"{1 + int((lens[block] > lens[block][answer]).sum()):,}"])
    yield result_table(f"After {SENTENCE!r}", ("block", "best", "second", "third", f"rank of {ANSWER!r}"), rows)


def report_published_induction(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 16: the induction scores of SmolLM2's heads on random tokens that repeat, and the loss without some heads.

    A head is removed by setting the columns of W_out that read it to 0. The other heads are drawn from those that are
    not among the best ones; their loss is the mean of several draws.
    """
    published = open_published(chapters, "ch12_interpretability")
    parts, model = published.own.parts, published.model
    generator = torch.Generator().manual_seed(seed)
    ids = torch.stack(
        [torch.randperm(published.sizes.vocab_size, generator=generator)[:PERIOD] for _ in range(TEXTS)]
    ).repeat(1, 2)
    scores = []
    for block, x in zip(model.blocks, parts.residual_stream(model, ids)):
        patterns = attention_weights(published, block.attn, block.ln1(x))  # (TEXTS, H, T, T)
        heads = [[parts.induction_score(pattern, PERIOD) for pattern in one] for one in patterns]
        scores.append(torch.tensor(heads).mean(0))
    table = torch.stack(scores)  # (n_layers, H)
    order = [divmod(place, table.size(1)) for place in table.flatten().argsort(descending=True).tolist()]
    rows = [[f"block {block}, head {head}", f"{table[block, head]:.2f}"] for block, head in order[: BEST_HEADS + 3]]
    yield result_table(f"The best induction scores of {table.numel()} heads", ("head", "score"), rows)
    yield f"Scores above 0.5: {int((table > 0.5).sum())}; below 0.1: {int((table < 0.1).sum())}."

    best, others = order[:BEST_HEADS], order[BEST_HEADS:]
    draws = [[others[i] for i in torch.randperm(len(others), generator=generator)[:BEST_HEADS]] for _ in range(DRAWS)]
    with show_progress("removing heads", 2 + DRAWS) as step:
        whole, without_best, *without_others = (
            loss_without_heads(published, heads, ids, step) for heads in ([], best, *draws)
        )
    means = [sum(losses) / DRAWS for losses in zip(*without_others)]
    named = (
        ("whole", whole),
        (f"without the {BEST_HEADS} best", without_best),
        (f"without {BEST_HEADS} others", means),
    )
    rows = [[name, *(f"{loss:.1f}" for loss in losses)] for name, losses in named]
    yield result_table("Loss per token", ("model", "first half", "second half"), rows)
    draw_by_draw = ", ".join(f"{second:.1f}" for _, second in without_others)
    yield f"Second half without {BEST_HEADS} others, draw by draw: {draw_by_draw}."


@torch.no_grad()
def loss_without_heads(
    published: Published, heads: Sequence[tuple[int, int]], ids: Tensor, step: Callable[[], None]
) -> list[float]:
    """The loss in both halves of the texts without these heads, each a block and its number."""
    model, n_heads = published.model, published.sizes.n_heads
    kept = [(block, model.blocks[block].attn.W_out.weight.clone()) for block in {block for block, _ in heads}]
    for block, head in heads:
        model.blocks[block].attn.W_out.weight.unflatten(1, (n_heads, -1))[:, head] = 0
    losses = cross_entropy(model(ids)[:, :-1].transpose(1, 2), ids[:, 1:], reduction="none").mean(0)
    for block, weight in kept:
        model.blocks[block].attn.W_out.weight.copy_(weight)
    step()
    return [losses[: PERIOD - 1].mean().item(), losses[PERIOD:].mean().item()]


def report_published_patching(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 16: where in SmolLM2 is the name that decides who gets the drink.

    The two sentences differ in one name. One state of the run on the second is replaced by that of the run on the
    first. The table shows which share of the logit difference comes back.
    """
    published = open_published(chapters, "ch12_interpretability")
    parts, model = published.own.parts, published.model
    clean, corrupted = ids_of(published, CLEAN), ids_of(published, CORRUPTED)
    [mary], [john] = map(published.tokenizer.encode, NAMES)

    def difference(logits: Tensor) -> Tensor:
        return (logits[0, -1, mary] - logits[0, -1, john])[None]  # (1,), as `recovery` wants it

    with torch.no_grad():
        ends = difference(model(clean)), difference(model(corrupted))
    for name, end in zip((CLEAN, CORRUPTED), ends):
        yield f"{name} ...: logit of Mary - logit of John = {end.item():.2f}"
    first = int((clean != corrupted).nonzero()[0, 1])  # before it, both runs are the same
    places = range(first, clean.size(1))
    rows = []
    with show_progress("patching", len(PATCHED_BLOCKS)) as step:
        for block in PATCHED_BLOCKS:
            patched = (difference(parts.patch_residual(model, clean, corrupted, block, place)) for place in places)
            rows.append(
                [
                    str(block),
                    *(f"{parts.recovery(*ends, one, 0) + 0.0:.2f}".replace("-0.00", "0.00") for one in patched),
                ]
            )
            step()
    words = [published.tokenizer.decode([i]).strip() for i in corrupted[0, first:].tolist()]
    yield result_table("The share that a state brings back", ("after block", *words), rows)


def report_published_bits(chapters: ChapterPackage, seed: int) -> Iterator[Table | str]:
    """Lesson 16: the perplexity of SmolLM2 on a fixed text, with the matrices of its blocks stored in fewer bits.

    The file's matrices have 4 bits and, for each 32 weights, a scale and a minimum. `error` is the size of the change
    relative to the size of the matrices.
    """
    published = open_published(chapters, "ch15_serving")
    ids = ids_of(published, TEXT)
    quantize_int8 = published.own.parts.quantize_int8
    kinds: tuple[tuple[str, float, Callable[[Tensor], Tensor]], ...] = (
        ("as published", 5.0, lambda weight: weight),
        ("8 bits, scale for each row", 8.0, lambda weight: _product(*quantize_int8(weight))),
        ("Q4_1 once more", 5.0, lambda weight: rounded_blocks(weight, 4)),
        ("4 bits, blocks of 64", 4.5, lambda weight: rounded_blocks(weight, 4, 64)),
        ("4 bits, scale for each row", 4.0, _rounded_rows),
        ("3 bits, blocks of 32", 4.0, lambda weight: rounded_blocks(weight, 3)),
        ("2 bits, blocks of 32", 3.0, lambda weight: rounded_blocks(weight, 2)),
    )
    linears = [
        module for block in published.model.blocks for module in block.modules() if isinstance(module, nn.Linear)
    ]
    originals = [linear.weight.clone() for linear in linears]
    size = sum(weight.square().sum().item() for weight in originals)
    rows = []
    with show_progress("rounding", len(kinds)) as step, torch.no_grad():
        for name, bits, change in kinds:
            error = 0.0
            for linear, weight in zip(linears, originals):
                linear.weight.copy_(change(weight))
                error += (linear.weight - weight).square().sum().item()
            loss = cross_entropy(published.model(ids)[0, :-1], ids[0, 1:])
            rows.append([name, f"{bits:.1f}", f"{(error / size) ** 0.5:.1%}", f"{loss.exp().item():,.1f}"])
            step()
    yield result_table(
        f"A text of {ids.size(1)} tokens", ("matrices stored as", "bits a weight", "error", "perplexity"), rows
    )


def rounded_blocks(weight: Tensor, bits: int, length: int = 32) -> Tensor:
    """The weight as blocks of this length with a scale and a minimum, both float16, would give it back."""
    blocks = weight.reshape(-1, length)
    minimum, maximum = blocks.aminmax(dim=1, keepdim=True)
    scale = ((maximum - minimum) / (2**bits - 1)).half().float()
    numbers = ((blocks - minimum.half().float()) / scale.where(scale > 0, torch.ones(()))).round().clamp(0, 2**bits - 1)
    return (scale * numbers + minimum.half().float()).view_as(weight)


def _rounded_rows(weight: Tensor) -> Tensor:
    """4 bits, codes from -7 to 7, and a scale for each row."""
    scale = weight.abs().amax(1) / 7
    return _product((weight / scale[:, None]).round(), scale)


def _product(codes: Tensor, scale: Tensor) -> Tensor:
    return codes * scale[:, None]
