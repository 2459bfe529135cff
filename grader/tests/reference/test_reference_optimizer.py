"""Chapter 8 of the reference, second half: against torch's AdamW and schedules, Hugging Face's schedule, other processes, and a model that learns."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
import torch
from grader.course.source import definition
from grader.course.source_check import forbidden_calls
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage
from grader.execution.target import package_sources, reference_of, resolve
from torch import Tensor, nn
from torch.nn import functional as F

SENTENCES = """the cat sat on the mat and slept
the dog sat on the rug and barked
a bird sat on the roof and sang
my mouse sat on the box and ate
the child sat on the chair and read
the fish swam in the river all day
a horse ran over the hill at night
the farmer milked the cow in the morning
my mother baked a cake for the guests
the teacher wrote a word on the board
a ship sailed across the sea to india
the moon rose over the dark forest
our neighbour planted a tree in spring
the king lost his crown in the garden
a fox stole two eggs from the hen
the train stopped at the last station
rain fell on the city for a week
the baker sold warm bread at noon
she opened the window and looked out
he closed the door and went home""".splitlines()
SURFACES = {"mat", "rug", "roof", "box", "chair"}


@pytest.fixture(scope="module")
def package():
    chapter = load_syllabus().chapter("ch08_training")
    package = ChapterPackage(package_sources(resolve("solutions"), chapter, whole=True), "optimised")
    yield package
    package.close()


@pytest.fixture(scope="module")
def ch08(package):
    return package.module("ch08_training")


@pytest.fixture(autouse=True)
def _chance():
    torch.manual_seed(17)


def same(got, expected, **options) -> None:
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12, **options)


def two_of_each(*shapes: tuple[int, ...]) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    values = [torch.randn(*shape, dtype=torch.float64) * 5 for shape in shapes]
    return [nn.Parameter(value.clone()) for value in values], [nn.Parameter(value.clone()) for value in values]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"lr": 0.05, "weight_decay": 0.5},
        {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.0},
        {"lr": 0.1, "betas": (0.0, 0.9), "eps": 1e-6, "weight_decay": 0.1},
    ],
)
@pytest.mark.parametrize("size", [1e-7, 1.0, 1e3])
def test_adamw_is_torchs_over_many_steps(ch08, options, size):
    """Changing lr, parameters that lack a gradient in some steps, gradients from a ten-millionth to thousands."""
    mine, torchs = two_of_each((3, 4), (5,), (2, 3, 2), (1,))
    ours, theirs = ch08.AdamW((parameter for parameter in mine), **options), torch.optim.AdamW(torchs, **options)
    for step in range(40):
        ours.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = 0.1 * (1 + step % 7) / 7
        ours.zero_grad()
        theirs.zero_grad()
        for i, (a, b) in enumerate(zip(mine, torchs)):
            if (step + i) % (i + 2) != 0:
                a.grad = torch.randn_like(a) * size * (step % 5)
                b.grad = a.grad.clone()
        ours.step()
        theirs.step()
        for a, b in zip(mine, torchs):
            same(a.data, b.data)


def test_adamw_trains_a_real_model_as_torchs_does(ch08, package):
    """The GPT of chapter 7 in double precision: the same loss at each of ten steps."""
    models = package.module("ch07_models")
    inputs, targets = torch.randint(0, 19, (4, 9)), torch.randint(0, 19, (4, 9))
    gpt = models.GPT(models.GPTConfig(19, 9, d_model=16, n_layers=2)).double()
    twin = models.GPT(gpt.config).double()
    twin.load_state_dict(gpt.state_dict())
    ours, theirs = ch08.AdamW(gpt.parameters(), lr=0.01), torch.optim.AdamW(twin.parameters(), lr=0.01)
    for _ in range(10):
        mine = ch08.train_step(gpt, ours, inputs, targets, max_norm=1.0)
        loss = F.cross_entropy(twin(inputs)[0].flatten(0, 1), targets.flatten())
        theirs.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 1.0)
        theirs.step()
        assert mine == pytest.approx(loss.item(), rel=1e-4)


def rates_of(scheduler_of, peak: float, steps: int) -> list[float]:
    """The rates a torch scheduler gives, step by step."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    scheduler, rates = scheduler_of(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(("warmup", "total"), [(0, 20), (1, 10), (10, 37)])
def test_schedule_is_hugging_faces(ch08, warmup, total):
    transformers = pytest.importorskip("transformers")
    theirs = rates_of(lambda o: transformers.get_cosine_schedule_with_warmup(o, warmup, total), 0.3, total + 1)
    assert [ch08.warmup_cosine(step, warmup, total, 0.3) for step in range(total + 1)] == pytest.approx(theirs, abs=1e-12)


def test_schedule_is_torchs_with_a_floor(ch08):
    theirs = rates_of(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 30, eta_min=0.04), 0.3, 31)
    assert [ch08.warmup_cosine(step, 0, 30, 0.3, 0.04) for step in range(31)] == pytest.approx(theirs, abs=1e-12)
    law = torch.optim.lr_scheduler.LambdaLR
    ours = rates_of(lambda o: law(o, lambda step: ch08.warmup_cosine(step, 5, 30, 1.0, 0.1)), 0.3, 40)
    assert ours == pytest.approx([ch08.warmup_cosine(step, 5, 30, 0.3, 0.03) for step in range(40)], abs=1e-12)


def test_perplexity_is_that_of_all_tokens_together(ch08, package):
    models = package.module("ch07_models")
    gpt = models.GPT(models.GPTConfig(23, 12, d_model=16, n_layers=2, dropout=0.3))
    batches = []
    for rows, width in ((2, 5), (3, 12), (1, 2)):
        inputs, targets = torch.randint(0, 23, (rows, width)), torch.randint(0, 23, (rows, width))
        batches.append((inputs, targets.masked_fill(torch.rand(rows, width) < 0.4, -100)))
    got = ch08.perplexity(gpt, iter(batches))
    with torch.no_grad():
        logits = [gpt.eval()(inputs)[0].flatten(0, 1) for inputs, _ in batches]
    expected = F.cross_entropy(torch.cat(logits), torch.cat([targets.flatten() for _, targets in batches])).exp()
    assert got == pytest.approx(expected.item(), rel=1e-5)


def test_perplexity_gives_modes_back_when_the_model_fails(ch08):
    model = nn.Sequential(nn.Embedding(5, 5), nn.Dropout(0.5), nn.Dropout(0.5))
    model[1].eval()
    with pytest.raises(IndexError):
        ch08.perplexity(model, [(torch.tensor([[7]]), torch.tensor([[0]]))])
    assert [module.training for module in model.modules()] == [True, True, False, True]


def test_the_split_is_the_same_in_every_process(ch08):
    """Two other processes, each with its own salt for Python's hash, give this process's answers."""
    texts = [*SENTENCES, *(f"sentence {i}" for i in range(300)), "नमस्ते दुनिया", ""]
    program = "\n".join(
        [
            "import hashlib, json, sys",
            definition(reference_of("ch08_training").text, "is_validation").text,
            "texts = json.load(sys.stdin)",
            "print(json.dumps([[is_validation(text) for text in texts], [hash(text) for text in texts]]))",
        ]
    )
    found = []
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"}
        run = subprocess.run([sys.executable, "-c", program], input=json.dumps(texts), env=environment, text=True, capture_output=True, check=True)
        found.append(json.loads(run.stdout))
    assert found[0][1] != found[1][1]  # Python's own hash does differ
    assert found[0][0] == found[1][0] == [ch08.is_validation(text) for text in texts]


def test_twenty_sentences_are_memorised(ch08, package):
    """From about ln V to below 0.5 in 150 epochs, and what an animal sat on becomes a surface."""
    tokens, models = package.module("ch01_tokenizer"), package.module("ch07_models")
    tokenizer = tokens.WordTokenizer(tokens.build_vocab([*SENTENCES, "<pad>"]))
    batch = ch08.collate([pair for text in SENTENCES for pair in ch08.next_token_pairs(tokenizer.encode(text), 16)])
    gpt = models.GPT(models.GPTConfig(tokenizer.vocab_size, 16, d_model=64, n_heads=4, n_layers=4))
    optimizer = ch08.AdamW(gpt.parameters(), lr=3e-3)
    records = ch08.fit(gpt, optimizer, lambda: [batch], 150)
    assert records[0]["train_loss"] == pytest.approx(math.log(tokenizer.vocab_size), abs=0.3)
    assert records[-1]["train_loss"] < 0.5
    assert ch08.perplexity(gpt, [batch]) < math.exp(0.5)
    assert ch08.judge_fit([record["train_loss"] for record in records], [1.0] * 150) == "learning"
    logits: Tensor = gpt(torch.tensor([tokenizer.encode("the dog sat on the")]))[0]
    assert tokenizer.decode([int(logits[0, -1].argmax())]) in SURFACES


@pytest.mark.parametrize(
    "line",
    [
        "class AdamW(torch.optim.AdamW): pass",
        "AdamW = torch.optim.Adam",
        "from torch.optim import AdamW",
        "class AdamW:\n    def __init__(self, params):\n        self.inner = torch.optim.NAdam(params)",
        "class AdamW:\n    def step(self):\n        torch.optim.adamw.adamw(self.params)",
        "class AdamW:\n    def step(self):\n        torch._fused_adamw_(self.params)",
    ],
)
def test_torchs_own_adam_is_a_shortcut(line):
    forbids = load_syllabus().exercise("AdamW").forbids
    assert forbidden_calls(f"import torch\n{line}\n", "AdamW", forbids)
    assert not forbidden_calls("import torch\nclass AdamW(torch.optim.Optimizer):\n    def adam(self): return super(AdamW, self)\n", "AdamW", forbids)
