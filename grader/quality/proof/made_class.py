"""A class of every kind: right, partial and wrong code, attacks, nothing at all, and files that are broken; the same for the same seed."""

from __future__ import annotations

import gzip
import io
import random
import re
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from grader.course.known_mistakes import misconceptions
from grader.course.source import definition, replace_definition
from grader.course.syllabus import ROOT, SOLUTIONS
from grader.quality.benchmarks.workplace import solved, without_marks

ASKED = {"softmax": "ch03_attention", "count_pairs": "ch01_tokenizer"}
CHAPTERS = list(dict.fromkeys(ASKED.values()))  # attacks on softmax are in the first; those on other exercises are left out
KINDS = {"right": 18, "partial": 22, "wrong": 38, "empty": 4, "broken": 9}  # how many for each other, besides the attacks
ATTACKS = ROOT / "grader" / "tests" / "attacks"
RACING = ("leave_a_hidden_thread", "leave_a_timer")  # whether a test of theirs fails or breaks off is decided by the clock; they earn nothing either way
ONE_IN = 8  # at most one in so many people attacks
STUB = "def {}(*arguments, **options):\n    raise NotImplementedError\n"
BESIDE = re.compile(r"^# ---- beside it: (\S+)\n", re.MULTILINE)

Texts = dict[str, str]  # module -> what stands in it


def make(folder: Path, people: int, seed: int) -> Counter[str]:
    """Write what so many people hand in; how many there are of each kind."""
    luck = random.Random(seed)
    attacks = [path for path in sorted(ATTACKS.glob("*.py")) if path.stem not in RACING and "\n# exercise: " not in path.read_text(encoding="utf-8")]
    attacks = luck.sample(attacks, min(len(attacks), people // ONE_IN))
    kinds = ["hostile"] * len(attacks) + luck.choices(list(KINDS), list(KINDS.values()), k=people - len(attacks))
    luck.shuffle(kinds)
    folder.mkdir(parents=True, exist_ok=True)  # the first person's may be an archive
    for number, kind in enumerate(kinds):
        place = folder / f"person {number:04} {kind}"
        if kind == "hostile":
            _attack(place, attacks.pop())
        else:
            MAKERS[kind](place, luck, number)
    return Counter(kinds)


def reference() -> Texts:
    return {module: solved(module) for module in CHAPTERS}


def with_stub(texts: Texts, exercise: str) -> Texts:
    module = ASKED[exercise]
    return texts | {module: replace_definition(texts[module], exercise, STUB.format(exercise))}


def with_mistake(texts: Texts, exercise: str, number: int) -> Texts:
    """The one of that number, of the known mistakes in this exercise."""
    module = ASKED[exercise]
    known = misconceptions(module, exercise)
    mistake = known[number % len(known)]
    text = (SOLUTIONS / f"{module}.py").read_text(encoding="utf-8")
    edited = mistake.applied_to(definition(text, exercise).text)
    return texts | {module: replace_definition(texts[module], exercise, without_marks(edited))}


def write(place: Path, texts: dict[str, str] | dict[str, bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = place / (name if "." in name else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def _right(place: Path, luck: random.Random, number: int) -> None:
    """As files or in an archive; one in six hands in the same as others do."""
    texts = reference() if luck.random() < 1 / 6 else _signed(reference(), number)
    how = luck.choice(["files", "files", "files", "zip", "tar.gz"])
    if how == "files":
        write(place, texts)
    else:
        place.with_name(f"{place.name}.{how}").write_bytes(zipped(texts) if how == "zip" else tarred(texts))


def _partial(place: Path, luck: random.Random, number: int) -> None:
    texts = reference()
    for exercise in luck.sample(list(ASKED), luck.randint(1, len(ASKED))):
        texts = with_stub(texts, exercise)
    write(place, _signed({module: texts[module] for module in luck.choice([CHAPTERS, CHAPTERS, CHAPTERS[:1], CHAPTERS[1:]])}, number))


def _wrong(place: Path, luck: random.Random, number: int) -> None:
    texts = reference()
    for exercise in luck.sample(list(ASKED), luck.choice([1, 1, 2])):
        texts = with_mistake(texts, exercise, luck.randrange(1000))
    write(place, _signed(texts, number))


def _empty(place: Path, luck: random.Random, number: int) -> None:
    kinds: list[dict[str, str]] = [{}, {CHAPTERS[0]: ""}, {"notes.txt": f"I could not do it, {number}"}, {CHAPTERS[0]: f"# {number}\n"}]
    write(place, luck.choice(kinds))
    if luck.random() < 0.2:
        (place / "work.zip").write_bytes(zipped({}))


def _broken(place: Path, luck: random.Random, number: int) -> None:
    right = _signed(reference(), number)
    first, second = CHAPTERS
    whole = {"zip": zipped(right), "tar.gz": tarred(right)}
    ways: list[dict] = [
        right | {first: right[first] + "\ndef half(:\n"},
        right | {first: right[first] + f"\nimport nothing_like_it_{number}\n"},
        right | {second: right[second] + "\nraise KeyError('at import')\n"},
        right | {first: right[first].encode() + b"# \xe9t\xe9 \xff\n"},
        right | {first: right[first] + "\0"},
        right | {second: "x = " + "(" * 500 + f"{number}" + ")" * 500 + "\n"},
        right | {first: right[first].replace("\n    ", "\n\t  ", 40)},
        {"work.zip": whole["zip"][: luck.randrange(len(whole["zip"]))]},
        {"work.tar.gz": whole["tar.gz"][: luck.randrange(len(whole["tar.gz"]))]},
        {"work.zip": luck.randbytes(2000)},
        {f"{first}.py/inside.txt": "a folder that is called as a chapter"},
    ]
    write(place, luck.choice(ways))


MAKERS: dict[str, Callable[[Path, random.Random, int], None]] = {"right": _right, "partial": _partial, "wrong": _wrong, "empty": _empty, "broken": _broken}


def _attack(place: Path, path: Path) -> None:
    text, *beside = BESIDE.split(path.read_text(encoding="utf-8"))
    write(place, {CHAPTERS[0]: text} | dict(zip(beside[::2], beside[1::2])))


def _signed(texts: Texts, number: int) -> Texts:
    """Unlike all others' by a comment."""
    return {module: f"{text}\n# {number}\n" for module, text in texts.items()}


def zipped(texts: Texts) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for module, text in texts.items():
            archive.writestr(zipfile.ZipInfo(f"{module}.py", (2026, 5, 1, 12, 0, 0)), text)
    return packed.getvalue()


def tarred(texts: Texts) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:") as archive:
        for module, text in texts.items():
            member = tarfile.TarInfo(f"{module}.py")
            member.size, member.mtime = len(text.encode()), 1_777_000_000
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(packed.getvalue(), mtime=0)
