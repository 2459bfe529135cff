"""The pictures of the lesson that show numbers of the reference."""

from __future__ import annotations

from types import ModuleType

from grader.chapters.stories.corpus import story
from grader.teaching.drawing import CARD, EMPTY, FAINT, box, card, shade, text_on, write

TEXT = "The dogs ran!"
CORPUS = "the cat sat . the cat ran . the dog sat ."  # of chapter 0
STORIES, VOCAB_SIZE = 30, 500  # for the byte pairs
LEFT, TOP, WIDE, TALL, STEP = 108, 56, 36, 30, 74


def ch01_three_tokenizers(chapter: ModuleType) -> str:
    """Draw the ids of one text for words, for bytes, and for byte pairs that were learned from stories."""
    words = chapter.WordTokenizer([*chapter.build_vocab([CORPUS]), "<unk>"], unk="<unk>")
    stories = "\n".join(story(0, number) for number in range(STORIES))
    pairs = chapter.BPETokenizer(chapter.train_bpe(stories, VOCAB_SIZE))
    rows = {
        "words": (words.vocab_size, TEXT.split(), words.encode(TEXT)),
        "bytes": (256, list(TEXT), list(TEXT.encode())),
        "byte pairs": (pairs.vocab_size, [pairs.decode([one]) for one in pairs.encode(TEXT)], pairs.encode(TEXT)),
    }
    marks: list[str] = []
    for number, (name, (size, pieces, ids)) in enumerate(rows.items()):
        y, place = TOP + number * STEP, 0
        marks.append(write(LEFT - 14, y + 14, name, anchor="end", bold=True))
        marks.append(write(LEFT - 14, y + 31, f"{size} tokens", anchor="end", colour=FAINT, size=12))
        for piece, one in zip(pieces, ids):
            place = TEXT.index(piece, place)
            x, wide = LEFT + place * WIDE, WIDE * len(piece) - 2
            unknown = name == "words" and one == words.vocab_size - 1
            fill = EMPTY if unknown else shade(0.4, 0, 1) if len(piece) > 1 else CARD
            middle, shown, ink = x + wide / 2, piece.replace(" ", "␣"), FAINT if unknown else text_on(fill)
            below = f"{one} <unk>" if unknown else str(one)
            marks += [box(x, y, wide, TALL, fill), write(middle, y + 20, shown, "middle", ink, 15)]
            marks.append(write(middle, y + TALL + 17, below, "middle", FAINT, 12))
            place += len(piece)
        marks.append(write(LEFT + len(TEXT) * WIDE + 12, y + 20, f"{len(ids)} ids", colour=FAINT))
    return card(marks, LEFT + len(TEXT) * WIDE + 72, TOP + 3 * STEP, f"“{TEXT}” for three tokenizers")
