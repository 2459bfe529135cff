"""Which exercise has which picture. Importing this imports neither torch nor a picture, because the watch needs it at every verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from grader.course.syllabus import Chapter, Exercise, Syllabus, UnknownName, load_syllabus


@dataclass(frozen=True)
class Subject:
    where: str  # "masks.causal_mask": the function in kinds/ that computes it
    about: str  # what the picture shows, in a line
    look: str  # what to look for, in a sentence

    @property
    def draw(self) -> Callable[[Any], list]:
        module, _, function = self.where.partition(".")
        return getattr(import_module(f".kinds.{module}", __package__), function)


SUBJECTS = {
    "count_pairs": Subject("tokens.count_pairs", "how often each letter follows each other letter", "The darkest cell is the pair that BPE would merge first."),
    "TokenEmbedding": Subject("tokens.token_embedding", "the vectors of a sentence", "`the` gets the same row both times."),
    "LearnedPositions": Subject("positions.learned_positions", "what is added to a sentence", "With start=4 the rows begin at row 4 of the table."),
    "sinusoidal_positions": Subject(
        "positions.sinusoidal_positions",
        "the table of positions",
        "Waves: high frequencies on the left, low frequencies on the right.",
    ),
    "SinusoidalPositions": Subject("positions.sinusoidal_module", "what is added to a sequence", "With start=5 the rows begin at row 5 of the same table."),
    "softmax": Subject("attention.softmax", "scores as weights", "The larger the scores, the more weight goes to the largest one; a hidden word gets none."),
    "causal_mask": Subject(
        "masks.causal_mask",
        "which keys each query may see",
        "A staircase: the diagonal is open, and the last step ends in the corner.",
    ),
    "padding_mask": Subject("masks.padding_mask", "which positions are words", "Each row is open as far as its sentence reaches."),
    "scaled_dot_product_attention": Subject(
        "attention.scaled_dot_product_attention",
        "which words attend to which",
        "Each row sums to 1; the mask leaves the upper corner empty.",
    ),
    "split_heads": Subject("heads.split_heads", "where each feature goes", "Head 0 has the left half of every position, head 1 the right half."),
    "merge_heads": Subject("heads.merge_heads", "where each feature returns to", "The numbers rise along each row and from row to row."),
    "SelfAttentionHead": Subject("influence.self_attention_head", "which outputs depend on which inputs", "Without a mask every output depends on every input."),
    "MultiHeadAttention": Subject(
        "attention.multi_head_attention",
        "which words attend to which, in each head",
        "The two heads differ, and neither attends to later words; all outputs depend on the whole context.",
    ),
    "FusedSelfAttention": Subject(
        "influence.fused_self_attention",
        "which outputs depend on which inputs",
        "Nothing above the diagonal: no output depends on later inputs.",
    ),
    "fuse_qkv": Subject("heads.fuse_qkv", "three matrices in one", "Three bands: queries, keys, values, in this order."),
    "rope_angles": Subject("positions.rope_angles", "the angle of each pair of features", "Straight lines: the first pair rotates fastest."),
    "apply_rope": Subject(
        "positions.apply_rope",
        "vectors that rotate with their position",
        "All points lie on a circle; pair 0 moves far, pair 1 only a little.",
    ),
    "alibi_slopes": Subject(
        "positions.alibi_slopes",
        "one slope for each head",
        "Each slope is the same fraction of the previous one; with six heads two slopes lie in between.",
    ),
    "alibi_bias": Subject(
        "positions.alibi_bias",
        "the penalty by distance",
        "0 at the query's own position, and more with every step away; each head has its own slope.",
    ),
    "CausalSelfAttention": Subject(
        "attention.causal_self_attention",
        "equal words that differ only in their position",
        "Without positions each row is uniform; ALiBi prefers near words.",
    ),
    "gelu": Subject("layers.gelu", "the curve, exact and approximate", "Nearly 0 on the left, nearly x on the right, and a small dip between."),
    "dropout": Subject("layers.dropout", "the values after dropout", "The more values are dropped, the larger the others become, so that the mean stays 1."),
    "LayerNorm": Subject(
        "layers.layer_norm",
        "vectors before and after",
        "After the norm all rows have the same mean and size, whatever they had before; each feature has its own weight.",
    ),
    "RMSNorm": Subject(
        "layers.rms_norm",
        "vectors before and after",
        "All rows have the same size, but they keep their shift; each feature has its own weight.",
    ),
    "FeedForward": Subject("layers.feed_forward", "a line with three bends", "ReLU bends sharply, GELU softly, at the same places."),
    "SwiGLU": Subject("layers.swiglu", "a gate that opens", "On the right it is a parabola; the sharper the gate, the flatter the left side."),
    "PreNormBlock": Subject(
        "depth.pre_norm_block",
        "norms through depth",
        "Each block adds to the stream, so it grows; no output depends on later inputs.",
    ),
    "PostNormBlock": Subject("depth.post_norm_block", "norms through depth", "After each block the size is 1 again; no output depends on later inputs."),
    "EncoderBlock": Subject(
        "influence.encoder_block",
        "which outputs depend on which inputs, with padding",
        "All depend on all, but only the last two outputs depend on the last two inputs.",
    ),
    "DecoderBlock": Subject(
        "influence.decoder_block",
        "which outputs depend on the sentence and on the memory",
        "Its own words: a staircase. The memory: all of it except the masked end.",
    ),
    "GPT": Subject("influence.gpt", "which logits depend on which words", "A staircase through all layers: nothing above the diagonal."),
    "Seq2Seq": Subject(
        "influence.seq2seq",
        "which logits depend on which words",
        "Every logit depends on every word of the source, but only on earlier words of the target.",
    ),
    "collate": Subject(
        "tokens.collate",
        "sentences of different lengths in one table",
        "The padding is 0 in the inputs and -100 in the targets, which is not a word.",
    ),
    "cross_entropy": Subject(
        "training.cross_entropy",
        "the loss by the probability of the right word",
        "A confident wrong answer costs most; ln 2 = 0.69 is the loss of a coin toss. For a batch it is the mean over the targets that count.",
    ),
    "warmup_cosine": Subject(
        "training.warmup_cosine",
        "the learning rate, step by step",
        "A straight line up to the peak at step 10, then half a cosine down to the floor at step 100.",
    ),
    "AdamW": Subject(
        "training.adamw",
        "40 steps down a valley",
        "It starts along the diagonal although one side is much steeper; weight decay pulls towards 0.",
    ),
    "apply_temperature": Subject(
        "sampling.apply_temperature",
        "the probabilities of the next word",
        "Low temperature: the best word gets nearly all. High temperature: the words come closer.",
    ),
    "top_k_filter": Subject(
        "sampling.top_k_filter",
        "the probabilities of the next word",
        "The k best words keep their proportions, the others get 0; if two words share the last place, both stay.",
    ),
    "top_p_filter": Subject(
        "sampling.top_p_filter",
        "the probabilities of the next word",
        "The smallest set of words whose sum reaches p stays, with the word that crosses p.",
    ),
    "min_p_filter": Subject(
        "sampling.min_p_filter",
        "the probabilities of the next word",
        "The limit is a share of the longest bar: words below it get 0, the others keep their proportions.",
    ),
    "sample_next_token": Subject(
        "sampling.sample_next_token",
        "how often each word is drawn",
        "The shares of the draws match the probabilities; with k = 4 four words are left.",
    ),
    "KVCache": Subject(
        "cache.kv_cache",
        "the contents of the cache after each call",
        "Each call continues where the last one ended, and earlier entries stay.",
    ),
    "CachedSelfAttention": Subject(
        "influence.cached_self_attention",
        "the outputs with and without a cache",
        "The second table is empty: in parts or as a whole, the outputs are the same.",
    ),
    "kv_cache_bytes": Subject(
        "cache.kv_cache_bytes",
        "the memory of a cache",
        "It grows with the length; eight heads need a quarter of the memory of 32 heads.",
    ),
    "GroupedQueryAttention": Subject(
        "attention.grouped_query_attention",
        "which query head reads which key head",
        "The first three query heads share key head 0, the others share key head 1.",
    ),
    "route": Subject("experts.route", "the experts of each word", "One or two cells in each row, with sum 1."),
    "load_balancing_loss": Subject(
        "experts.load_balancing_loss",
        "the penalty for an uneven load",
        "About 1 if all experts are used equally; the more tokens one expert gets, the larger it is.",
    ),
    "MoELayer": Subject("experts.moe_layer", "which expert processes which word", "Two experts for each word; their weights sum to 1."),
    "residual_stream": Subject("depth.residual_stream", "norms through depth", "One row more than there are blocks; the vectors grow from block to block."),
    "logit_lens": Subject(
        "interpretability.logit_lens",
        "what each layer would predict",
        "In the second half the last block predicts the next letter, and no earlier layer does.",
    ),
    "attention_patterns": Subject(
        "interpretability.attention_patterns",
        "where two heads of a known circuit attend",
        "One head attends to the previous letter, the other to the letter that came next the last time.",
    ),
    "find_induction_heads": Subject(
        "interpretability.find_induction_heads",
        "the induction score of each head",
        "One of the four heads is an induction head: its score is 1, because all its weight is at the right position.",
    ),
    "patch_residual": Subject(
        "interpretability.patch_residual",
        "which state carries the answer",
        "After block 0 the state at the exchanged letter carries it; after block 1 the last state does.",
    ),
    "numeric_gradient": Subject(
        "backward.numeric_gradient",
        "the measured slope of x^3",
        "With eps = 0.5 the whole curve lies 0.25 higher, which is eps squared.",
    ),
    "gelu_backward": Subject("backward.gelu_backward", "the slope of gelu", "From 0 down to -0.13, up to 1.13, and back to 1. The approximate slope is nearly the same."),
    "softmax_backward": Subject(
        "backward.softmax_backward",
        "how each weight grows with each score",
        "Positive on the diagonal and negative elsewhere; each row sums to 0.",
    ),
    "cross_entropy_backward": Subject(
        "backward.cross_entropy_backward",
        "the gradient of the logits",
        "Each row is negative at its target and positive elsewhere; the row of the ignored target is empty.",
    ),
    "layer_norm_backward": Subject(
        "backward.layer_norm_backward",
        "how each output grows with each input",
        "Each row sums to 0, because a shift of the input changes nothing.",
    ),
    "embedding_backward": Subject("backward.embedding_backward", "the gradient of the table", "Id 2 occurs three times, and its row has three ones."),
    "attention_backward": Subject(
        "backward.attention_backward",
        "the gradients if only the output of query 3 matters",
        "grad_q has one row; keys and values after position 3 get nothing, because the mask hides them.",
    ),
    "merge_attention": Subject(
        "efficient.merge_attention",
        "how two groups of keys share the attention",
        "With equal lse each group counts half; a difference of 6 leaves the smaller group almost nothing.",
    ),
    "tiled_attention": Subject(
        "efficient.tiled_attention",
        "which outputs depend on which words, for two block sizes",
        "Both maps are the same staircase: the block size changes the work, not the result.",
    ),
    "sliding_window_mask": Subject(
        "efficient.sliding_window_mask",
        "which keys each query may see",
        "A band of three along the diagonal; with fewer queries it ends in the corner.",
    ),
    "windowed_attention": Subject(
        "efficient.windowed_attention",
        "which outputs depend on which inputs",
        "One layer sees its window; in two layers information comes from twice as far.",
    ),
    "beam_search": Subject(
        "serving.beam_search",
        "which texts of two tokens the search finds",
        "One beam finds the greedy text 0 0; two beams find 1 0, which is nearly twice as likely.",
    ),
    "residual_distribution": Subject(
        "serving.residual_distribution",
        "what a refused guess is replaced from",
        "Only tokens that the target prefers are left; together with the kept guesses they complete the target.",
    ),
    "accept_drafts": Subject(
        "serving.accept_drafts",
        "how often each token comes first",
        "The shares match the target within the chance of 1000 draws, although every guess comes from the draft.",
    ),
    "PaddedGPT": Subject(
        "serving.padded_gpt",
        "which logits depend on which columns, with two pads",
        "A staircase that begins after the pads: no real token depends on them.",
    ),
    "PagedKVCache": Subject(
        "serving.paged_kv_cache",
        "the positions of a text and of its fork, in their blocks",
        "Blocks of the fork are those of the text, until the fork writes into the last one.",
    ),
    "quantize_int8": Subject(
        "serving.quantize_int8",
        "a matrix, its codes, and the error",
        "Each row uses the codes from -127 to 127; the errors of a row are at most half of its step.",
    ),
    "continuous_batches": Subject(
        "serving.continuous_batches",
        "who writes at each step",
        "A row ends, and at the next step another one begins: no column has more than three marks.",
    ),
}


def has_picture(name: str) -> bool:
    return name in SUBJECTS


def find_subject(name: str) -> Subject:
    """Return the exercise's picture; raise UnknownName if it has none."""
    if name not in SUBJECTS:
        raise UnknownName(f"{name} has no picture; `headway show` without a name lists the exercises that have one")
    return SUBJECTS[name]


def exercises_with_pictures(course: Syllabus | Chapter | None = None) -> list[Exercise]:
    """Return the exercises that have a picture, in the order of the course."""
    return [exercise for exercise in (course or load_syllabus()).exercises if has_picture(exercise.name)]
