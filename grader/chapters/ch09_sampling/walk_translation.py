"""A translator from English to Hindi that memorises the pairs of grader/chapters/corpora.py.

New sentences of the same words show how far that generalises.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from grader.chapters.corpora import ENGLISH_HINDI
from grader.chapters.small_models import ATTENDING, PAD, TOKENIZING, SideBySide
from grader.console.output import ProgressReporter
from grader.teaching.drawing import heatmap
from grader.teaching.terminal_drawing import BLANK, Block, curve, grid, table
from grader.teaching.walks.parts import MixedChapters
from torch import nn

REQUIRED_EXERCISES = (
    *TOKENIZING, "TokenEmbedding", "sinusoidal_positions", "SinusoidalPositions", *ATTENDING, "padding_mask",
    "MultiHeadAttention", "dropout", "LayerNorm", "FeedForward", "EncoderBlock", "DecoderBlock", "Seq2Seq",
    "count_parameters", "collate", "cross_entropy", "train_step", "AdamW", "warmup_cosine", "translate",
)  # fmt: skip

BEGIN, END = "<sos>", "<eos>"
STEPS, WARMUP, PEAK = 120, 10, 3e-3
MAX_WORDS = 12  # of a translation
WITH_ATTENTION = ("the boy drinks milk", "she drinks tea", "i am a boy")
NEW_SENTENCES = {
    "the girl drinks water": "लड़की पानी पीती है",
    "we eat bread": "हम रोटी खाते हैं",
    "he drinks tea": "वह चाय पीता है",
    "the house is cold": "घर ठंडा है",
    "this is my school": "यह मेरा स्कूल है",
}
MEANINGS = {  # word for word: -m masculine, -f feminine, -pl plural or polite
    "आम": "mango", "एक": "a", "कहाँ": "where", "किताब": "book", "क्या": "what", "खाता": "eat-m",
    "खाती": "eat-f", "खाते": "eat-pl", "गर्म": "hot", "घर": "house", "चाय": "tea", "जा": "go", "जाता": "go-m",
    "जाती": "go-f", "जाते": "go-pl", "ठंडा": "cold", "तुम": "you", "तुम्हारा": "your", "दूध": "milk",
    "नहीं": "not", "नाम": "name", "पढ़ता": "read-m", "पढ़ती": "read-f", "पानी": "water", "पीता": "drink-m",
    "पीती": "drink-f", "पीते": "drink-pl", "पेड़": "tree", "बड़ा": "big", "मेरा": "my", "मेरी": "my-f",
    "मैं": "i", "यह": "this", "रहे": "-ing", "राम": "ram", "रोटी": "bread", "लड़का": "boy", "लड़की": "girl",
    "वह": "he/she", "स्कूल": "school", "हम": "we", "हूँ": "am", "है": "is", "हैं": "are", "हो": "are-pl",
}  # fmt: skip
COUNTED_STEPS = (1, 10, 15, 20, 30, 60, 120)


def measure(parts: MixedChapters, seed: int, report_progress: ProgressReporter) -> SimpleNamespace:
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
        ids = parts.translate(model, torch.tensor([english.encode(sentence)]), begin, end, MAX_WORDS)[0].tolist()
        return hindi.decode([i for i in ids if i not in (0, begin, end)])

    def count_right() -> int:
        written = parts.translate(model, source, begin, end, MAX_WORDS).tolist()
        return sum([i for i in row if i][: len(ids)] == ids for row, ids in zip(written, targets))

    before = translated(ENGLISH_HINDI[0][0])
    losses, counts = [], {}
    both, optimizer = SideBySide(model, source.size(1)), parts.AdamW(model.parameters(), lr=PEAK)
    with report_progress("training a translator", STEPS) as step:
        for number in range(1, STEPS + 1):
            optimizer.param_groups[0]["lr"] = parts.warmup_cosine(number, WARMUP, STEPS, PEAK)
            losses.append(float(parts.train_step(both, optimizer, torch.cat([source, reads], dim=1), writes)))
            if number in COUNTED_STEPS:
                counts[number] = count_right()
            step()
    return SimpleNamespace(
        english=english.vocab_size,
        hindi=hindi.vocab_size,
        parameters=int(parts.count_parameters(model)),
        batch=(*source.shape, reads.size(1)),  # pairs, positions of the source, of the target
        ids=(sources[0], targets[0][:-1], targets[0][1:]),  # of the first pair
        before=before,  # the first sentence, translated without training
        losses=losses,
        right=counts,  # after so many steps: how many of the pairs come out right
        translated=[translated(source) for source, _ in ENGLISH_HINDI],
        attended=[_attended(parts, model, english, hindi, sentence, begin, end) for sentence in WITH_ATTENTION],
        new=[translated(sentence) for sentence in NEW_SENTENCES],
    )


@torch.no_grad()
def _attended(
    parts: MixedChapters, model: nn.Module, english: Any, hindi: Any, sentence: str, begin: int, end: int
) -> SimpleNamespace:
    """Return a sentence, its translation with the meaning of each word, and where the decoder attended for each word.

    The weights are the mean of the heads of the last block's cross-attention, in one more run on the result.
    """
    src = torch.tensor([english.encode(sentence)])
    written = parts.translate(model, src, begin, end, MAX_WORDS)
    model.eval()
    memory, x = model.encode(src), model.positions(model.tgt_emb(written[:, :-1]))
    past = parts.causal_mask(x.size(1))
    for block in model.decoder_blocks[:-1]:
        x = block(x, memory, past)  # one sentence has no padding
    last = model.decoder_blocks[-1]
    x = last.ln1(x + last.self_attn(x, mask=past))
    _, weights = last.cross_attn(x, context=memory, return_weights=True)  # (1, H, T, S)
    words = [hindi.decode([i]) for i in written[0, 1:].tolist()]
    with_meaning = [f"{word} ({MEANINGS[word]})" if word in MEANINGS else word for word in words]
    return SimpleNamespace(source=sentence.split(), written=with_meaning, weights=weights[0].mean(0).tolist())


def describe(n: SimpleNamespace) -> dict[str, Any]:
    pairs = len(ENGLISH_HINDI)
    (english, hindi), (read, fed, wanted) = ENGLISH_HINDI[0], ([f"{i:2}" for i in ids] for ids in n.ids)
    ids = (("the encoder reads", read), ("the decoder reads", fed), ("its targets are", wanted))
    counts = [[step, f"{n.losses[step - 1]:.3f}", f"{count} of {pairs}"] for step, count in n.right.items()]
    translations = [
        [source, "" if written == target else "wrong:", written]
        for (source, target), written in zip(ENGLISH_HINDI, n.translated)
    ]
    new = [
        [
            source,
            "right" if written == meant else "wrong",
            " ".join(MEANINGS.get(word, word) for word in written.split()),
            written,
        ]
        for (source, meant), written in zip(NEW_SENTENCES.items(), n.new)
    ]
    grids: Block = []
    for one in n.attended:
        grids += BLANK + grid(one.weights, [""] * len(one.written), one.source, after=one.written)
    attends_to = [row.index(max(row)) for row in n.attended[0].weights]
    return {
        "pairs": pairs,
        "first_english": english,
        "first_hindi": hindi,
        "id_table": table([[name, " ".join(row)] for name, row in ids], left=2),
        "untrained": n.before or "(nothing)",
        "loss_curve": curve("loss", n.losses) + BLANK,
        "right_table": table(counts, ["step", "loss", "correct translations"], left=0),
        "translation_table": table(translations[::3], left=3),
        "attention_grids": grids,
        "crosses": len(attends_to) > 2 and attends_to[1] > attends_to[2],
        "new_table": table(new, left=4),
        "right_new": sum(row[1] == "right" for row in new),
        "new_count": len(new),
    }


def draw_attended(one: SimpleNamespace, title: str = "") -> str:
    title = title or " ".join(one.source)
    return heatmap(one.weights, one.written, one.source, title, row_name="writes", column_name="attends to")
