"""Which exercise has which picture. Reading this imports neither torch nor a picture: the watch asks it at every verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus


@dataclass(frozen=True)
class Subject:
    where: str  # "masks.causal_mask": the function in kinds/ that draws it
    about: str  # what is drawn, in a line
    look: str  # what to look for, in a sentence

    @property
    def draw(self) -> Callable[[Any], list]:
        module, _, function = self.where.partition(".")
        return getattr(import_module(f".kinds.{module}", __package__), function)


SUBJECTS = {
    "count_pairs": Subject("tokens.count_pairs", "each letter by the one that follows it", "The darkest cell is the pair that BPE would merge first."),
    "TokenEmbedding": Subject("tokens.token_embedding", "the vectors of a sentence", "Both times `the` gets the same row."),
    "LearnedPositions": Subject("positions.learned_positions", "what is added to a sentence", "With start=4 the rows begin at row 4 of the table."),
    "sinusoidal_positions": Subject(
        "positions.sinusoidal_positions",
        "the table of positions",
        "Waves: quick ones on the left, slow ones on the right.",
    ),
    "SinusoidalPositions": Subject("positions.sinusoidal_module", "what is added to a sequence", "With start=5 the same table begins at row 5."),
    "softmax": Subject("attention.softmax", "scores as weights", "The larger the scores, the more goes to the largest; what is hidden gets nothing."),
    "causal_mask": Subject(
        "masks.causal_mask",
        "which keys each query may see",
        "A staircase: the diagonal is open, and it ends in the last corner.",
    ),
    "padding_mask": Subject("masks.padding_mask", "which positions hold a word", "Each row is open as far as its sentence reaches."),
    "scaled_dot_product_attention": Subject(
        "attention.scaled_dot_product_attention",
        "who listens to whom",
        "Each row shares out 1; the mask leaves the upper corner empty.",
    ),
    "split_heads": Subject("heads.split_heads", "where each feature goes", "Head 0 holds the left half of every position, head 1 the right half."),
    "merge_heads": Subject("heads.merge_heads", "where each feature goes back to", "The numbers rise along each row and from row to row."),
    "SelfAttentionHead": Subject("influence.self_attention_head", "who hears whom", "Without a mask every output hears every input."),
    "MultiHeadAttention": Subject(
        "attention.multi_head_attention",
        "who listens to whom, in each head",
        "Two heads, two ways to look back, and none looks ahead; a context is heard as a whole.",
    ),
    "FusedSelfAttention": Subject("influence.fused_self_attention", "who hears whom", "Nothing above the diagonal: no output hears what comes after it."),
    "fuse_qkv": Subject("heads.fuse_qkv", "three matrices in one", "Three bands: queries, keys, values, in this order."),
    "rope_angles": Subject("positions.rope_angles", "the angle of each pair of features", "Straight lines: the first pair turns fastest."),
    "apply_rope": Subject(
        "positions.apply_rope",
        "vectors that turn with their position",
        "All points lie on the circle; pair 0 goes far, pair 1 a little.",
    ),
    "alibi_slopes": Subject(
        "positions.alibi_slopes",
        "one slope a head",
        "Each slope is the same fraction of the one before; with six heads two are put in between.",
    ),
    "alibi_bias": Subject(
        "positions.alibi_bias",
        "what distance costs",
        "Nothing at the query's own place, and more with every step away; each head has a slope of its own.",
    ),
    "CausalSelfAttention": Subject(
        "attention.causal_self_attention",
        "equal words, told apart by position alone",
        "Without positions each row is even; ALiBi prefers what is near.",
    ),
    "gelu": Subject("layers.gelu", "the curve, exact and approximate", "Nearly 0 on the left, nearly x on the right, and a small dip between."),
    "dropout": Subject("layers.dropout", "what dropout leaves", "The more is dropped, the larger the rest, so that the mean stays 1."),
    "LayerNorm": Subject(
        "layers.layer_norm",
        "vectors before and after",
        "Large and small, shifted or not: after the norm all rows are alike in size, and each feature has a weight of its own.",
    ),
    "RMSNorm": Subject(
        "layers.rms_norm",
        "vectors before and after",
        "The size is gone, the shift is still there, and each feature has a weight of its own.",
    ),
    "FeedForward": Subject("layers.feed_forward", "a line with three bends", "ReLU bends sharply, GELU softly, at the same places."),
    "SwiGLU": Subject("layers.swiglu", "a gate that opens", "On the right it is a parabola; the sharper the gate, the flatter the left."),
    "PreNormBlock": Subject(
        "depth.pre_norm_block",
        "norms through depth",
        "Each block adds to the stream, so it grows; nobody hears what comes after.",
    ),
    "PostNormBlock": Subject("depth.post_norm_block", "norms through depth", "After each block the size is 1 again; nobody hears what comes after."),
    "EncoderBlock": Subject(
        "influence.encoder_block",
        "who hears whom, with padding",
        "All hear all, but the last two columns are heard only by themselves.",
    ),
    "DecoderBlock": Subject(
        "influence.decoder_block",
        "who hears whom, in the sentence and in the memory",
        "Its own words: a staircase. The memory: all of it, but the masked end.",
    ),
    "GPT": Subject("influence.gpt", "which word reaches which logits", "A staircase, through all layers: nothing above the diagonal."),
    "Seq2Seq": Subject(
        "influence.seq2seq",
        "which word reaches which logits",
        "Every word that is read reaches every logit; of what is written only what came before.",
    ),
    "collate": Subject(
        "tokens.collate",
        "sentences of different length in one table",
        "What is filled up is 0 in the inputs, and -100 in the targets, which is no word.",
    ),
    "cross_entropy": Subject(
        "training.cross_entropy",
        "the loss by the chance of the right word",
        "Being sure and wrong costs most; ln 2 = 0.69 is a coin's throw. Of a batch it is the mean over what counts.",
    ),
    "warmup_cosine": Subject(
        "training.warmup_cosine",
        "the learning rate, step by step",
        "Straight up to the peak at 10, half a cosine down to the floor at 100.",
    ),
    "AdamW": Subject(
        "training.adamw",
        "40 steps down a valley",
        "It begins along the diagonal, however much steeper one side is; decay pulls towards 0.",
    ),
    "apply_temperature": Subject(
        "sampling.apply_temperature",
        "the next word's chances",
        "Cold: the best word takes nearly all. Hot: all come closer.",
    ),
    "top_k_filter": Subject(
        "sampling.top_k_filter",
        "the next word's chances",
        "The k best keep their proportions, the others have none; of two that share the last place, both stay.",
    ),
    "top_p_filter": Subject(
        "sampling.top_p_filter",
        "the next word's chances",
        "The fewest words that reach p together: the one that crosses it stays.",
    ),
    "sample_next_token": Subject(
        "sampling.sample_next_token",
        "how often each word is drawn",
        "The shares of the draws are the chances; with k = 4 four words are left.",
    ),
    "KVCache": Subject(
        "cache.kv_cache",
        "what the cache holds after each call",
        "Each call goes on where the last one ended, and what was there stays.",
    ),
    "CachedSelfAttention": Subject(
        "influence.cached_self_attention",
        "the outputs, from the cache and without",
        "In the second table there is nothing: in parts or whole, the outputs are the same.",
    ),
    "kv_cache_bytes": Subject(
        "cache.kv_cache_bytes",
        "the memory of a cache",
        "It grows with the length; with eight heads it takes a quarter of what 32 take.",
    ),
    "GroupedQueryAttention": Subject(
        "attention.grouped_query_attention",
        "which query head reads which key head",
        "The first three heads share the first, the others the second.",
    ),
    "route": Subject("experts.route", "where each word is sent", "One or two cells a row, which together are 1."),
    "load_balancing_loss": Subject(
        "experts.load_balancing_loss",
        "what an uneven load costs",
        "About 1 where all experts share the work, and more the more one of them does.",
    ),
    "MoELayer": Subject("experts.moe_layer", "which word is seen by which expert", "Two experts a word; their weights together are 1."),
    "residual_stream": Subject("depth.residual_stream", "norms through depth", "One row more than there are blocks; the vectors grow on the way."),
    "logit_lens": Subject(
        "interpretability.logit_lens",
        "what each layer would say next",
        "In the second half the last block knows the next letter, and no layer before it.",
    ),
    "attention_patterns": Subject(
        "interpretability.attention_patterns",
        "what two heads of a known circuit look at",
        "One head looks at the letter before, the other at what came next the last time.",
    ),
    "find_induction_heads": Subject(
        "interpretability.find_induction_heads",
        "how far each head is an induction head",
        "One of the four is, and all of its weight is where it should be.",
    ),
    "patch_residual": Subject(
        "interpretability.patch_residual",
        "which state carries the answer",
        "After block 0 it is the letter that was exchanged, after block 1 the last one.",
    ),
}


def has_picture(name: str) -> bool:
    return name in SUBJECTS


def find_subject(name: str) -> Subject:
    """The exercise's picture; UnknownName where it has none."""
    if name not in SUBJECTS:
        raise UnknownName(f"{name} has no picture; `headway show` without a name lists those that have one")
    return SUBJECTS[name]


def exercises_with_pictures(course: Syllabus | Chapter | None = None) -> list[Exercise]:
    """The exercises that have a picture, in the order of the course."""
    return [exercise for exercise in (course or load_syllabus()).exercises if has_picture(exercise.name)]
