"""A translator from English to Hindi: its training, its translations, and its cross-attention.

It memorises the pairs of grader/teaching/corpora.py. New sentences of the same words show how far that generalises.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from grader.teaching.corpora import ENGLISH_HINDI
from grader.teaching.drawing.charts import heatmap
from grader.teaching.drawing.svg import stack_pictures
from grader.teaching.walks.parts import Parts
from grader.teaching.walks.progress_line import ProgressReporter
from grader.teaching.walks.small_models import ATTENDING, PAD, TOKENIZING, SideBySide
from grader.teaching.walks.walk_page import WalkPage, shape
from torch import nn

REQUIRED_EXERCISES = (
    *TOKENIZING, "TokenEmbedding", "sinusoidal_positions", "SinusoidalPositions", *ATTENDING, "padding_mask", "MultiHeadAttention",
    "dropout", "LayerNorm", "FeedForward", "EncoderBlock", "DecoderBlock", "Seq2Seq", "count_parameters", "collate", "cross_entropy",
    "train_step", "AdamW", "warmup_cosine", "translate",
)  # fmt: skip
NEXT_STEP = (
    "Next: this is the Seq2Seq of chapter 7 and nothing else. Train it on pairs of another language, and see how many pairs it needs "
    "before it translates a new sentence right."
)

BEGIN, END = "<sos>", "<eos>"
STEPS, WARMUP, PEAK = 120, 10, 3e-3
LONGEST = 12  # words of a translation
LOOKED_AT = ("the boy drinks milk", "she drinks tea", "i am a boy")  # step by step, with the attention
NEW = ("the girl drinks water", "we eat bread", "he drinks tea", "the house is cold", "this is my school")
MEANT = ("लड़की पानी पीती है", "हम रोटी खाते हैं", "वह चाय पीता है", "घर ठंडा है", "यह मेरा स्कूल है")
MEANS = {  # word for word: -m masculine, -f feminine, -pl plural or polite
    "आम": "mango", "एक": "a", "कहाँ": "where", "किताब": "book", "क्या": "what", "खाता": "eat-m", "खाती": "eat-f", "खाते": "eat-pl", "गर्म": "hot", "घर": "house",
    "चाय": "tea", "जा": "go", "जाता": "go-m", "जाती": "go-f", "जाते": "go-pl", "ठंडा": "cold", "तुम": "you", "तुम्हारा": "your", "दूध": "milk", "नहीं": "not",
    "नाम": "name", "पढ़ता": "read-m", "पढ़ती": "read-f", "पानी": "water", "पीता": "drink-m", "पीती": "drink-f", "पीते": "drink-pl", "पेड़": "tree", "बड़ा": "big",
    "मेरा": "my", "मेरी": "my-f", "मैं": "i", "यह": "this", "रहे": "-ing", "राम": "ram", "रोटी": "bread", "लड़का": "boy", "लड़की": "girl", "वह": "he/she",
    "स्कूल": "school", "हम": "we", "हूँ": "am", "है": "is", "हैं": "are", "हो": "are-pl",
}  # fmt: skip
CHECKED = (1, 10, 15, 20, 30, 60, 120)  # steps in the table


@dataclass(frozen=True)
class Attended:
    """One sentence, its translation, and where the decoder attended for each written word."""

    source: list[str]
    written: list[str]  # with the end
    weights: list[list[list[float]]]  # by head of the last block's cross-attention: a row for each word written


@dataclass(frozen=True)
class Numbers:
    english: int  # words
    hindi: int
    parameters: int
    batch: tuple[int, int, int]  # pairs, positions of the source, of the target
    first: tuple[str, str]
    ids: tuple[list[int], list[int], list[int]]  # of the first pair: what is read, what the decoder reads, what it should write
    before: str  # the first sentence, translated without training
    losses: list[float]
    right: dict[int, int]  # after so many steps: how many of the pairs come out right
    translated: list[tuple[str, str, bool]]  # after training: English, Hindi, right?
    attended: list[Attended]
    new: list[tuple[str, str, str]]  # English, written, meant


def measure(parts: Parts, seed: int, report_progress: ProgressReporter) -> Numbers:
    """Train a Seq2Seq on all pairs, and translate with it."""
    english = parts.WordTokenizer([PAD, *parts.build_vocab(source for source, _ in ENGLISH_HINDI)])
    hindi = parts.WordTokenizer([PAD, BEGIN, END, *parts.build_vocab(target for _, target in ENGLISH_HINDI)])
    begin, end = hindi.encode(f"{BEGIN} {END}")
    sources = [english.encode(source) for source, _ in ENGLISH_HINDI]
    targets = [[begin, *hindi.encode(target), end] for _, target in ENGLISH_HINDI]
    source, _ = parts.collate([(ids, ids) for ids in sources])
    reads, writes = parts.collate([(ids[:-1], ids[1:]) for ids in targets])
    torch.manual_seed(seed)
    model = parts.Seq2Seq(parts.Seq2SeqConfig(english.vocab_size, hindi.vocab_size, max_len=16))

    def translated(sentence: str) -> str:
        ids = parts.translate(model, torch.tensor([english.encode(sentence)]), begin, end, LONGEST)[0].tolist()
        return hindi.decode([i for i in ids if i not in (0, begin, end)])

    def right() -> int:
        written = parts.translate(model, source, begin, end, LONGEST).tolist()
        return sum([i for i in row if i][: len(ids)] == ids for row, ids in zip(written, targets))

    before = translated(ENGLISH_HINDI[0][0])
    losses, counts = [], {}
    both, optimizer = SideBySide(model, source.size(1)), parts.AdamW(model.parameters(), lr=PEAK)
    with report_progress("training a translator", STEPS) as step:
        for number in range(1, STEPS + 1):
            optimizer.param_groups[0]["lr"] = parts.warmup_cosine(number, WARMUP, STEPS, PEAK)
            losses.append(float(parts.train_step(both, optimizer, torch.cat([source, reads], dim=1), writes)))
            if number in CHECKED:
                counts[number] = right()
            step()
    return Numbers(
        english=english.vocab_size,
        hindi=hindi.vocab_size,
        parameters=int(parts.count_parameters(model)),
        batch=(*source.shape, reads.size(1)),
        first=ENGLISH_HINDI[0],
        ids=(sources[0], targets[0][:-1], targets[0][1:]),
        before=before,
        losses=losses,
        right=counts,
        translated=[(source, written := translated(source), written == target) for source, target in ENGLISH_HINDI],
        attended=[_attended(parts, model, english, hindi, sentence, (begin, end)) for sentence in LOOKED_AT],
        new=[(sentence, translated(sentence), meant) for sentence, meant in zip(NEW, MEANT)],
    )


@torch.no_grad()
def _attended(parts: Parts, model: nn.Module, english: Any, hindi: Any, sentence: str, ends: tuple[int, int]) -> Attended:
    """Translate, then run the model once more on the result and return the weights of the last block's cross-attention."""
    src = torch.tensor([english.encode(sentence)])
    written = parts.translate(model, src, *ends, LONGEST)
    model.eval()
    memory, x = model.encode(src), model.positions(model.tgt_emb(written[:, :-1]))
    past = parts.causal_mask(x.size(1))
    for block in model.decoder_blocks[:-1]:
        x = block(x, memory, past)  # one sentence has no padding
    last = model.decoder_blocks[-1]
    x = last.ln1(x + last.self_attn(x, mask=past))
    _, weights = last.cross_attn(x, context=memory, return_weights=True)  # (1, H, T, S)
    return Attended(sentence.split(), [hindi.decode([i]) for i in written[0, 1:].tolist()], weights[0].tolist())


def print_walk(page: WalkPage, n: Numbers) -> None:
    """The pairs, the model, the training, the translations, and where the decoder attends."""
    pairs, S, T = n.batch
    english, hindi = n.first
    read, fed, wanted = n.ids
    page.step("Pairs of sentences")
    page.say(f"{pairs} English sentences with their Hindi translations, {n.english} and {n.hindi} words (padding, begin and end included). The first pair:")
    page.line(f"{english}  =  {hindi}")
    page.table(
        [["the encoder reads", _ids(read)], ["the decoder reads", _ids(fed)], ["its targets are", _ids(wanted)]],
        left=2,
    )  # fmt: skip
    page.say("1 begins a sentence, 2 ends it. The targets are the decoder's input, one place later.")

    page.step("The model", f"{shape((pairs, S))} and {shape((pairs, T))}")
    page.say(
        f"Two encoder blocks read the English sentence in both directions. Two decoder blocks write the Hindi: they see the words written so far, "
        f"and through cross-attention the whole English sentence. The model has {n.parameters:,} weights. Before training it translates {english!r} as:"
    )
    page.line(n.before or "(nothing)")

    page.step("Training")
    page.curve("loss", n.losses)
    page.blank()
    page.table([[step, f"{n.losses[step - 1]:.3f}", f"{count} of {pairs}"] for step, count in n.right.items()], ["step", "loss", "correct translations"], left=0)

    page.step("Translating")
    page.say("The decoder writes the likeliest word at each step, until it writes the end. Every third training sentence:")
    page.table([[english, "" if right else "wrong:", hindi] for english, hindi, right in n.translated[::3]], left=3)

    page.step("Where the decoder attends", "cross-attention")
    page.say("The last decoder block, the mean of its heads. A column is an English word, a row the word that was written with these weights:")
    for attended in n.attended:
        page.blank()
        page.grid(_mean(attended.weights), [""] * len(attended.written), attended.source, after=_glossed(attended.written))
    if _crosses(n.attended[0]):
        page.say("English puts the verb before the object, Hindi after it, so the weights cross. The model had no dictionary and no rules of word order.")
    else:
        page.say("Not every row attends where a person would: in the encoder's output a word's vector already contains information about its neighbours.")

    page.step("New sentences")
    page.say("Sentences of known words that were not in training, what the model wrote, and that word for word (-m masculine, -f feminine, -pl plural or polite):")
    rows = [[english, "right" if written == meant else "wrong", " ".join(MEANS.get(w, w) for w in written.split()), written] for english, written, meant in n.new]
    page.table(rows, left=4)
    count = sum(written == meant for _, written, meant in n.new)
    page.say(
        f"{count} of {len(n.new)} are right. {pairs} pairs are enough to memorise, but far too few to learn a language: the output "
        "resembles a sentence from training. Real translation models are trained on millions of pairs."
    )


def _crosses(attended: Attended) -> bool:
    """Return whether the second written word attends further to the right than the third."""
    places = [row.index(max(row)) for row in _mean(attended.weights)]
    return len(places) > 2 and places[1] > places[2]


def _glossed(words: list[str]) -> list[str]:
    """Add the meaning to each word, for readers who do not know Hindi."""
    return [f"{word} ({MEANS[word]})" if word in MEANS else word for word in words]


def _ids(ids: list[int]) -> str:
    return " ".join(f"{i:2}" for i in ids)


def draw(n: Numbers) -> str:
    pictures = [heatmap(_mean(a.weights), _glossed(a.written), a.source, " ".join(a.source), row_name="writes", column_name="attends to") for a in n.attended]
    return stack_pictures(pictures, "Where the translator attends while it writes")


def _mean(heads: list[list[list[float]]]) -> list[list[float]]:
    """Average the weights over the heads."""
    return torch.tensor(heads).mean(dim=0).tolist()
