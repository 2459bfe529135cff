"""The cases of `headway hunt --training`: a known mistake, the setup in which it is trained, and what shows it.

A symptom is a predicate over the record of a run (looks.py) and that of a right run of the same setup with another
seed, which the learner sees beside it. It was there at all three recorded seeds, and in no right run. A silent case has
no symptom: its run shows none of the others' either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256
from statistics import mean

from grader.chapters.training_runs.records import Record
from grader.course.known_mistakes import Misconception, misconceptions

Symptom = Callable[[Record, Record], bool]
AT_ONCE = "at once"


@dataclass(frozen=True)
class Number:
    """The number that shows a symptom best."""

    says: str
    of: Callable[[Record], float]
    form: str


@dataclass(frozen=True)
class Case:
    """`also` has exercises in which a mistake could look the same: naming one of them is right too."""

    mistake: str  # its id in tests/misconceptions/
    exercise: str
    module: str
    setup: str
    look: str  # where the symptom is seen: AT_ONCE, or the name of a further look
    shows: str
    symptom: Symptom | None = None
    number: Number | None = None
    also: tuple[str, ...] = ()

    def find_mistake(self) -> Misconception:
        return next(each for each in misconceptions(self.module, self.exercise) if each.id == self.mistake)


def in_hunt_order(cases: Iterable[Case]) -> list[Case]:
    """The cases shuffled; the order is always the same."""
    return sorted(cases, key=lambda case: sha256(f"run {case.mistake}".encode()).digest())


def last(run: Record, curve: str, points: int = 5) -> float:
    """The mean of a curve's last points."""
    return mean(run["curves"][curve][-points:])


def gap(run: Record) -> float:
    """By how much the validation loss is above the training loss at the end."""
    return run["curves"]["validation"][-1] - last(run, "train")


def uniform(run: Record) -> float:
    """The loss of a model that gives each token the same probability: ln V."""
    return math.log(run["figures"]["vocabulary"])


def part_norm(run: Record, part: str) -> float:
    return run["activations"]["gradients"].get(part, math.inf)


def _not_in_the_past(run: Record) -> bool:
    return run["attention"]["later"] < 0.01


def _nan_share(run: Record) -> float:
    return mean(math.isnan(loss) for loss in run["curves"]["train"])


def _padded_targets(run: Record) -> int:
    return sum(targets.count("<pad>") for _, targets in run["batch"]["rows"])


def _apart(run: Record, what: str = "apart") -> float:
    return run.get("cache", {}).get(what, 0.0)


CASES = (
    Case(
        "windows_targets_are_inputs",
        "next_token_pairs",
        "ch08_training",
        "plain",
        "batch",
        "Both losses fall to almost 0, and every sample repeats one word. The batch has the inputs once more as "
        "targets.",
        lambda run, usual: last(run, "train") < 0.2 and run["samples"]["loss"] < 0.2 and _not_in_the_past(run),
        number=Number("the training loss at the end", lambda run: last(run, "train"), ".2f"),
        also=("collate",),
    ),
    Case(
        "causal_sees_the_next",
        "causal_mask",
        "ch03_attention",
        "plain",
        "attention",
        "Both losses fall far below those of the usual run, but the samples are bad. In the attention maps each "
        "position gives weight to the next one.",
        lambda run, usual: run["attention"]["later"] > 0.1,
        number=Number("the weight on later positions", lambda run: run["attention"]["later"], ".2f"),
        also=("CausalSelfAttention",),
    ),
    Case(
        "attention_scale_multiplied",
        "scaled_dot_product_attention",
        "ch03_attention",
        "plain",
        "attention",
        "The losses are a little worse than usual. Almost every query in the attention maps gives nearly all its "
        "weight to a single key.",
        lambda run, usual: run["attention"]["greatest"] > 1.5 * usual["attention"]["greatest"],
        number=Number("the greatest weight of a query, on average", lambda run: run["attention"]["greatest"], ".2f"),
        also=("CausalSelfAttention",),
    ),
    Case(
        "softmax_over_queries",
        "scaled_dot_product_attention",
        "ch03_attention",
        "plain",
        "attention",
        "The losses look good, the samples do not. The rows of the attention maps do not add up to 100 %; the "
        "columns do, which is how later positions reach earlier ones.",
        lambda run, usual: run["attention"]["row sums"][1] > 1.5,
        number=Number("the largest sum of a row of weights", lambda run: run["attention"]["row sums"][1], ".1f"),
        also=("softmax", "CausalSelfAttention"),
    ),
    Case(
        "softmax_nothing_subtracted",
        "softmax",
        "ch03_attention",
        "half",
        AT_ONCE,
        "The training goes well until a score is above 11. Then the loss is NaN, from one step to the next, and "
        "stays so: e^11.1 is more than float16 can hold.",
        lambda run, usual: _nan_share(run) > 0,
        number=Number("the share of steps whose loss is NaN", lambda run: _nan_share(run), ".2f"),
        also=("scaled_dot_product_attention",),
    ),
    Case(
        "dropout_active_without_training",
        "dropout",
        "ch05_layers",
        "dropout",
        "cache",
        "The curves look almost usual. The same model gives other logits for the same tokens when it is asked "
        "twice, in eval mode.",
        lambda run, usual: _apart(run, "again") > 0.1,
        number=Number(
            "the largest difference between the logits of two passes", lambda run: _apart(run, "again"), ".1f"
        ),
        also=("FeedForward", "CausalSelfAttention"),
    ),
    Case(
        "perplexity_with_dropout",
        "perplexity",
        "ch08_training",
        "dropout",
        "positions",
        "The validation curve ends higher than usual. The look at the loss by position measures the same held-out "
        "texts in eval mode, and its mean is clearly lower: the model is fine, and the measurement is not.",
        lambda run, usual: run["curves"]["validation"][-1] - run["positions"]["mean"] > 0.05,
        number=Number(
            "the validation loss above the loss in eval mode",
            lambda run: run["curves"]["validation"][-1] - run["positions"]["mean"],
            ".2f",
        ),
    ),
    Case(
        "step_no_zero_grad",
        "train_step",
        "ch08_training",
        "plain",
        "rate",
        "The losses fall more slowly than usual, and the gradients stay longer. The weights move further per step all "
        "the time, because every update follows the sum of all gradients so far.",
        lambda run, usual: last(run, "moved") > 1.6 * last(usual, "moved"),
        number=Number(
            "how far a weight moves in a step at the end, in learning rates", lambda run: last(run, "moved"), ".2f"
        ),
        also=("AdamW",),
    ),
    Case(
        "pieces_gradient_never_divided",
        "accumulated_step",
        "ch08_training",
        "pieces",
        AT_ONCE,
        "The losses are usual. The norm of the gradient is hundreds of times as large: it is a sum over tokens, "
        "where it should be a mean. Clipping and AdamW hide it, until somebody changes the clipping.",
        lambda run, usual: last(run, "norm") > 10 * last(usual, "norm"),
        number=Number("the norm of the gradient at the end", lambda run: last(run, "norm"), ".1f"),
    ),
    Case(
        "adam_decay_without_lr",
        "AdamW",
        "ch08_training",
        "plain",
        "activations",
        "The loss falls at first, and then rises almost to that of guessing. All outputs shrink, even that of the "
        "last norm, whose weights begin at 1: weight decay pulls everything to 0 faster than gradients can push.",
        lambda run, usual: run["activations"]["end"]["last norm"] < 0.5 * usual["activations"]["end"]["last norm"],
        number=Number("the size of the last norm's outputs", lambda run: run["activations"]["end"]["last norm"], ".2f"),
    ),
    Case(
        "adam_without_correction",
        "AdamW",
        "ch08_training",
        "plain",
        "rate",
        "The run learns its training texts too well, and the held-out ones no better. At the first step the weights "
        "move by three times the learning rate, where AdamW moves each of them by the rate itself.",
        lambda run, usual: 2 < run["curves"]["moved"][0] < 10,
        number=Number(
            "how far a weight moves in the first step, in learning rates", lambda run: run["curves"]["moved"][0], ".2f"
        ),
    ),
    Case(
        "adam_lr_kept_from_the_start",
        "AdamW",
        "ch08_training",
        "plain",
        "rate",
        "The schedule is as it should be, but the weights do not follow it: measured in the scheduled rate, they "
        "move far at the beginning and at the end, where that rate is small.",
        lambda run, usual: last(run, "moved", 2) > 4 * last(usual, "moved", 2),
        number=Number(
            "how far a weight moves in a step at the end, in learning rates", lambda run: last(run, "moved", 2), ".2f"
        ),
    ),
    Case(
        "schedule_whole_division",
        "warmup_cosine",
        "ch08_training",
        "plain",
        "rate",
        "The loss does not move for 20 steps. The learning rate is 0 there, and then jumps to its peak: a warm-up "
        "that does not rise.",
        lambda run, usual: run["curves"]["rate"][1] == 0,
        number=Number(
            "the learning rate at step 8, in thousandths", lambda run: 1000 * run["curves"]["rate"][1], ".1f"
        ),
    ),
    Case(
        "schedule_comes_back_up",
        "warmup_cosine",
        "ch08_training",
        "extended",
        "rate",
        "The gradients grow towards the end. The learning rate falls to its floor, and then rises again: the "
        "training goes on after the end of the schedule, and the cosine with it.",
        lambda run, usual: run["curves"]["rate"][-1] > 3 * min(run["curves"]["rate"][10:]),
        number=Number("the last learning rate, in thousandths", lambda run: 1000 * run["curves"]["rate"][-1], ".1f"),
    ),
    Case(
        "split_by_chance",
        "is_validation",
        "ch08_training",
        "few",
        AT_ONCE,
        "The validation loss is nearly as low as the training loss, although the run reads each text about sixty "
        "times. The held-out texts are in the training set too.",
        lambda run, usual: gap(run) < 0.4 * gap(usual) and last(run, "train") < 2 and _not_in_the_past(run),
        number=Number("the validation loss above the training loss at the end", lambda run: gap(run), ".2f"),
    ),
    Case(
        "batch_targets_filled_with_pad_id",
        "collate",
        "ch08_training",
        "plain",
        "batch",
        "Both losses are lower than usual. In the batch the padding has targets, which are easy to predict.",
        lambda run, usual: _padded_targets(run) > 0,
        number=Number("targets in the two rows that are padding", lambda run: _padded_targets(run), ".0f"),
        also=("cross_entropy",),
    ),
    Case(
        "batch_last_target_hidden",
        "collate",
        "ch08_training",
        "plain",
        "batch",
        "No sample ends. In the batch the last target of every row is hidden, so the end of a text is never one.",
        lambda run, usual: run["samples"]["ended"] == 0 and run["samples"]["loss"] < 3,
        number=Number("samples that end, of 12", lambda run: run["samples"]["ended"], ".0f"),
        also=("next_token_pairs",),
    ),
    Case(
        "batch_cut_to_the_shortest",
        "collate",
        "ch08_training",
        "plain",
        "batch",
        "A step has a quarter fewer tokens than usual, and a batch has no padding at all. Its rows have one length: "
        "that of the shortest, so the ends of the others are cut off.",
        lambda run, usual: run["figures"]["filled"] > 0.98 and run["batch"]["shape"][1] > 1,
        number=Number("the share of a batch that is no padding", lambda run: run["figures"]["filled"], ".2f"),
    ),
    Case(
        "loss_divided_by_all_places",
        "cross_entropy",
        "ch08_training",
        "plain",
        AT_ONCE,
        "The very first loss is too low. An untrained model guesses, which costs ln V; here the padding is in the "
        "divisor, which makes this loss and every later one smaller.",
        lambda run, usual: run["curves"]["train"][0] < 0.92 * uniform(run),
        number=Number("the first loss, divided by ln V", lambda run: run["curves"]["train"][0] / uniform(run), ".2f"),
    ),
    Case(
        "loss_softmax_first",
        "cross_entropy",
        "ch08_training",
        "plain",
        AT_ONCE,
        "The loss hardly falls, and soon the gradients are tiny. A loss that gets probabilities instead of logits "
        "cannot fall to 0, because probabilities differ by at most 1.",
        lambda run, usual: last(run, "train") > 4 and last(run, "norm") < 0.1 * last(usual, "norm"),
        number=Number("the norm of the gradient at the end", lambda run: last(run, "norm"), ".2f"),
        also=("GPT",),
    ),
    Case(
        "draw_softmax_twice",
        "sample_next_token",
        "ch09_sampling",
        "plain",
        AT_ONCE,
        "Both losses are usual, and the samples are noise: the model itself finds them very unlikely. The greedy "
        "texts in the look at the cache are sentences, so only the draw is wrong.",
        lambda run, usual: run["samples"]["loss"] > 4 and last(run, "train") < 2,
        number=Number("the model's loss on its own samples", lambda run: run["samples"]["loss"], ".1f"),
        also=("generate", "top_p_filter", "apply_temperature"),
    ),
    Case(
        "gen_last_but_one",
        "generate",
        "ch09_sampling",
        "plain",
        "cache",
        "Both losses are usual, and the samples stammer. With a cache the same model writes a sentence, and the "
        "logits with and without it are equal: the function that writes without a cache takes the wrong ones.",
        lambda run, usual: (
            _apart(run) < 0.01 and run.get("cache", {}).get("plain") != run.get("cache", {}).get("cached")
        ),
        number=Number("the model's loss on its own samples", lambda run: run["samples"]["loss"], ".1f"),
    ),
    Case(
        "cgpt_positions_from_zero",
        "CachedGPT",
        "ch10_kv_cache",
        "plain",
        "cache",
        "The training and the samples are usual. With a cache the model writes another text, and its logits are far "
        "from those without: each new token gets the position 0.",
        lambda run, usual: _apart(run) > 0.5 and _apart(run, "again") < 0.01,
        number=Number(
            "the largest difference between the logits with and without the cache", lambda run: _apart(run), ".1f"
        ),
        also=("KVCache", "CachedSelfAttention", "generate_cached", "LearnedPositions"),
    ),
    Case(
        "balance_cut_off",
        "load_balancing_loss",
        "ch11_moe",
        "experts",
        "activations",
        "The loss is usual. The routers get no gradient: with one expert for each token, the balance loss is their "
        "only source. So the experts are used unevenly.",
        lambda run, usual: part_norm(run, "router 1") < 1e-5 and part_norm(run, "router 2") < 1e-5,
        number=Number("the norm of the first router's gradient", lambda run: part_norm(run, "router 1"), ".1g"),
        also=("MoELayer", "MoEBlock"),
    ),
    Case(
        "gpt_tied_by_copy",
        "GPT",
        "ch07_models",
        "plain",
        AT_ONCE,
        "The losses are usual. The weights need a fifth more memory than usual: embedding and head are two matrices.",
        lambda run, usual: run["figures"]["weights"] > 1.1 * usual["figures"]["weights"],
        number=Number("the memory of the weights, in kB", lambda run: run["figures"]["weights"] / 1000, ".0f"),
    ),
    Case(
        "gpt_begins_with_std_one",
        "GPT",
        "ch07_models",
        "plain",
        AT_ONCE,
        "The first loss is far above that of guessing, ln V, and the first gradients are many times as long as "
        "usual. The sizes of the activations at the beginning are not those of small weights.",
        lambda run, usual: run["curves"]["train"][0] > 1.5 * uniform(run),
        number=Number("the first loss, divided by ln V", lambda run: run["curves"]["train"][0] / uniform(run), ".2f"),
        also=("TokenEmbedding",),
    ),
    Case(
        "gpt_no_table_added",
        "GPT",
        "ch07_models",
        "plain",
        "activations",
        "The losses are usual: the causal mask alone lets this model count. The table of positions gets no gradient, "
        "so it is never added, and the optimizer keeps nothing for it. The cached model adds it, so its logits differ.",
        lambda run, usual: part_norm(run, "positions") == 0,
        number=Number("the norm of the positions' gradient", lambda run: part_norm(run, "positions"), ".2f"),
        also=("LearnedPositions",),
    ),
    Case(
        "merge_not_swapped",
        "merge_heads",
        "ch03_attention",
        "plain",
        "positions",
        "Both losses are far too low, and the samples are odd, as with a mask that sees the future. But the "
        "attention maps are clean. The loss by position is near 0 from the first position on, which no model can "
        "predict: the positions are mixed after attention.",
        lambda run, usual: run["positions"]["losses"][0] < 1 and last(run, "train") > 0.1 and _not_in_the_past(run),
        number=Number("the loss at position 0", lambda run: run["positions"]["losses"][0], ".2f"),
        also=("split_heads", "CausalSelfAttention"),
    ),
    Case(
        "pre_lane_cut",
        "PreNormBlock",
        "ch06_blocks",
        "plain",
        "activations",
        "The loss falls much more slowly. The first block's gradient is much smaller than the second's: the stream "
        "between them passes values on, but no gradient.",
        lambda run, usual: part_norm(run, "block 1") < 0.4 * part_norm(run, "block 2"),
        number=Number(
            "the first block's gradient, divided by the second's",
            lambda run: part_norm(run, "block 1") / part_norm(run, "block 2"),
            ".2f",
        ),
    ),
    Case(
        "draw_temperature_last",
        "sample_next_token",
        "ch09_sampling",
        "plain",
        AT_ONCE,
        "Top p is applied before the temperature, so it keeps more tokens. The samples are as good as usual.",
    ),
    Case(
        "layernorm_divides_by_d_minus_one",
        "LayerNorm",
        "ch05_layers",
        "plain",
        AT_ONCE,
        "Every vector is 1 % too short: the last norm begins at 0.986. The weights learn to make up for that.",
    ),
    Case(
        "pieces_gradient_divided_by_their_number",
        "accumulated_step",
        "ch08_training",
        "pieces",
        AT_ONCE,
        "The gradient is the mean over pieces, where it should be the mean over tokens. The pieces have nearly as "
        "many tokens here, so the difference is noise.",
    ),
)
