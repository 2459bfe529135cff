"""train: tokens a second of `headway train`, compared with the same model made of torch's own layers.

Both have the same weights, batches, data type, threads and schedule, and give the same losses, which is checked. Their
steps take turns, so that other work on the machine slows both down alike.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from grader.models.design import PRESETS, Design, build_model
from grader.models.training.corpora import Batch, StoryCorpus, count_targets
from grader.models.training.run import training_exercises
from grader.models.training.settings import RECIPES
from grader.models.training.trainer import Trainer, prepare_torch
from grader.quality.benchmarks.figures import (
    CLOCKS,
    format_seconds,
    machine,
    median_or_nan,
    model_options,
    print_figure,
    table,
)  # fmt: skip
from grader.teaching.walks.parts import Parts
from torch import Tensor, nn

MAX_RELATIVE_DIFFERENCE = 1e-4  # of two losses
COMPARED_STEPS = 3  # later, rounding makes the two models different


class TorchGPT(nn.Module):
    """ids (B, T) -> logits (B, T, V): nn.TransformerEncoderLayer with a causal mask, which calls F.scaled_dot_product_attention."""

    def __init__(self, design: Design, vocab_size: int) -> None:
        super().__init__()
        self.token_emb = nn.Embedding(vocab_size, design.d_model)
        self.pos_emb = nn.Embedding(design.max_len, design.d_model)
        layer = nn.TransformerEncoderLayer(
            design.d_model, design.n_heads, design.d_ff or 4 * design.d_model, design.dropout, F.gelu,
            batch_first=True, norm_first=True,
        )  # fmt: skip
        last = nn.LayerNorm(design.d_model)
        self.blocks = nn.TransformerEncoder(layer, design.n_layers, last, enable_nested_tensor=False)
        mask = nn.Transformer.generate_square_subsequent_mask(design.max_len)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        T = ids.size(1)
        x = self.token_emb(ids) + self.pos_emb.weight[:T]  # (B, T, D)
        x = self.blocks(x, mask=self.mask[:T, :T], is_causal=True)
        return F.linear(x, self.token_emb.weight)  # tied

    @torch.no_grad()
    def copy_from(self, model: nn.Module) -> None:
        """Take the weights of the course's GPT. They have other names here, and the three matrices of attention are one."""
        theirs = dict(model.named_parameters(remove_duplicate=False))
        found = {name: theirs[name] for name in ("token_emb.weight", "pos_emb.weight")}
        pairs = {"self_attn.out_proj": "attn.W_out", "norm1": "ln1", "norm2": "ln2", "linear1": "ffn.up", "linear2": "ffn.down"}
        for kind in ("weight", "bias"):
            found[f"blocks.norm.{kind}"] = theirs[f"ln_f.{kind}"]
            for i in range(len(self.blocks.layers)):
                qkv = torch.cat([theirs[f"blocks.{i}.attn.W_{name}.{kind}"] for name in "qkv"])
                found[f"blocks.layers.{i}.self_attn.in_proj_{kind}"] = qkv
                for mine, name in pairs.items():
                    found[f"blocks.layers.{i}.{mine}.{kind}"] = theirs[f"blocks.{i}.{name}.{kind}"]
        self.load_state_dict(found)


def torch_step(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[Batch], max_norm: float) -> float:
    """One update as in `accumulated_step`, with torch's functions; returns the loss from before it."""
    optimizer.zero_grad()
    count, total = count_targets(batches), 0.0
    for inputs, targets in batches:
        share = int((targets != -100).sum()) / count
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) * share
        loss.backward()
        total += loss.item()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return total


def measure(size: str, steps: int, threads: int, clock_name: str) -> int:
    design, recipe, clock = PRESETS[size], RECIPES[size], CLOCKS[clock_name]
    parts = Parts(training_exercises(design, "words"), ())
    prepare_torch(0, threads)
    corpus = StoryCorpus(parts, "words", 0, recipe.rows, recipe.pieces, design.max_len)
    torch.manual_seed(0)
    trainer = Trainer(parts, design, build_model(parts, design, corpus.tokenizer.vocab_size), corpus, recipe, "cpu")
    model = TorchGPT(design, corpus.tokenizer.vocab_size)
    model.copy_from(trainer.model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.peak, betas=recipe.betas, weight_decay=recipe.weight_decay)
    count = sum(parameter.numel() for parameter in trainer.parameters)
    what = f"{size}: {count:,} parameters, float32, {threads} threads"
    print(f"train: {machine()}\n{what}; medians of {steps} steps, {clock_name} time\n", flush=True)
    own_seconds, torch_seconds, tokens = [], [], []
    for number in range(steps + 1):
        began = clock()
        trainer.step(steps + 2)
        between = clock()
        for group in optimizer.param_groups:
            group["lr"] = trainer.optimizer.param_groups[0]["lr"]
        batches = corpus.batch(number)
        losses = trainer.history.losses[-1], torch_step(model, optimizer, batches, recipe.max_norm)
        if number < COMPARED_STEPS and abs(losses[0] - losses[1]) > MAX_RELATIVE_DIFFERENCE * losses[0]:
            print(f"train: in step {number + 1} the losses are {losses[0]:.6f} and {losses[1]:.6f}: not the same model")
            return 1
        if number:  # the first step is slower than all others
            own_seconds.append(between - began)
            torch_seconds.append(clock() - between)
            tokens.append(count_targets(batches))
    parts.close()
    own, theirs = median_or_nan(own_seconds), median_or_nan(torch_seconds)
    rates = [f"{sum(tokens) / len(tokens) / seconds:,.0f}" for seconds in (own, theirs)]
    rows = [["headway", format_seconds(own), rates[0]], ["torch's layers", format_seconds(theirs), rates[1]]]
    print(table(["", "a step", "tokens a second"], rows, words=1) + "\n")
    print_figure(
        f"`headway train` learns from {rates[0]} tokens a second, the same model of torch's own layers from {rates[1]}: "
        f"a step takes {own / theirs:.2f} times as long ({clock_name} time)."
    )
    return 0


def run(arguments: list[str]) -> int:
    parser = model_options("train", __doc__ or "", tuple(PRESETS))
    parser.add_argument("--steps", type=int, default=30, metavar="N", help="steps of each (30)")
    options = parser.parse_args(arguments)
    before = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        return measure(options.preset, max(1, options.steps), options.threads, options.clock)
    finally:
        torch.set_num_threads(before[0])
        torch.use_deterministic_algorithms(before[1])
