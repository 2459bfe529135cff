"""Generates a class of every kind: correct, partial and wrong code, attacks, empty submissions, and broken files. The same seed gives the same class."""

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
from grader.quality.benchmarks.workplace import solved_chapter, without_markers

GRADED = {"softmax": "ch03_attention", "count_pairs": "ch01_tokenizer"}
CHAPTERS = list(dict.fromkeys(GRADED.values()))  # attacks on softmax are in the first; those on other exercises are left out
KINDS = {"right": 18, "partial": 22, "wrong": 38, "empty": 4, "broken": 9}  # relative frequencies, without the attacks
ATTACKS = ROOT / "grader" / "tests" / "attacks"
RACING = ("leave_a_hidden_thread", "leave_a_timer")  # timing decides whether their tests fail or break off; they earn nothing either way
ONE_IN = 8  # at most one person in so many attacks
STUB = "def {}(*arguments, **options):\n    raise NotImplementedError\n"
EXTRA_FILE = re.compile(r"^# ---- next to it: (\S+)\n", re.MULTILINE)

Texts = dict[str, str]  # module -> its text


def make(folder: Path, people: int, seed: int) -> Counter[str]:
    """Write the submissions of so many people; return how many there are of each kind."""
    random_numbers = random.Random(seed)
    attacks = [path for path in sorted(ATTACKS.glob("*.py")) if path.stem not in RACING and "\n# exercise: " not in path.read_text(encoding="utf-8")]
    attacks = random_numbers.sample(attacks, min(len(attacks), people // ONE_IN))
    kinds = ["hostile"] * len(attacks) + random_numbers.choices(list(KINDS), list(KINDS.values()), k=people - len(attacks))
    random_numbers.shuffle(kinds)
    folder.mkdir(parents=True, exist_ok=True)  # the first person's may be an archive
    for number, kind in enumerate(kinds):
        destination = folder / f"person {number:04} {kind}"
        if kind == "hostile":
            _attack(destination, attacks.pop())
        else:
            MAKERS[kind](destination, random_numbers, number)
    return Counter(kinds)


def reference() -> Texts:
    return {module: solved_chapter(module) for module in CHAPTERS}


def with_stub(texts: Texts, exercise: str) -> Texts:
    module = GRADED[exercise]
    return texts | {module: replace_definition(texts[module], exercise, STUB.format(exercise))}


def with_mistake(texts: Texts, exercise: str, number: int) -> Texts:
    """The chapters with one of the exercise's known mistakes, chosen by its number."""
    module = GRADED[exercise]
    known = misconceptions(module, exercise)
    mistake = known[number % len(known)]
    text = (SOLUTIONS / f"{module}.py").read_text(encoding="utf-8")
    edited = mistake.applied_to(definition(text, exercise).text)
    return texts | {module: replace_definition(texts[module], exercise, without_markers(edited))}


def write(destination: Path, texts: dict[str, str] | dict[str, bytes]) -> None:
    destination.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        path = destination / (name if "." in name else f"{name}.py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())


def _right(destination: Path, random_numbers: random.Random, number: int) -> None:
    """As files or in an archive; about one in six submits the same content as others."""
    texts = reference() if random_numbers.random() < 1 / 6 else _made_unique(reference(), number)
    how = random_numbers.choice(["files", "files", "files", "zip", "tar.gz"])
    if how == "files":
        write(destination, texts)
    else:
        destination.with_name(f"{destination.name}.{how}").write_bytes(zipped(texts) if how == "zip" else tarred(texts))


def _partial(destination: Path, random_numbers: random.Random, number: int) -> None:
    texts = reference()
    for exercise in random_numbers.sample(list(GRADED), random_numbers.randint(1, len(GRADED))):
        texts = with_stub(texts, exercise)
    write(destination, _made_unique({module: texts[module] for module in random_numbers.choice([CHAPTERS, CHAPTERS, CHAPTERS[:1], CHAPTERS[1:]])}, number))


def _wrong(destination: Path, random_numbers: random.Random, number: int) -> None:
    texts = reference()
    for exercise in random_numbers.sample(list(GRADED), random_numbers.choice([1, 1, 2])):
        texts = with_mistake(texts, exercise, random_numbers.randrange(1000))
    write(destination, _made_unique(texts, number))


def _empty(destination: Path, random_numbers: random.Random, number: int) -> None:
    kinds: list[dict[str, str]] = [{}, {CHAPTERS[0]: ""}, {"notes.txt": f"I could not do it, {number}"}, {CHAPTERS[0]: f"# {number}\n"}]
    write(destination, random_numbers.choice(kinds))
    if random_numbers.random() < 0.2:
        (destination / "work.zip").write_bytes(zipped({}))


def _broken(destination: Path, random_numbers: random.Random, number: int) -> None:
    right = _made_unique(reference(), number)
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
        {"work.zip": whole["zip"][: random_numbers.randrange(len(whole["zip"]))]},
        {"work.tar.gz": whole["tar.gz"][: random_numbers.randrange(len(whole["tar.gz"]))]},
        {"work.zip": random_numbers.randbytes(2000)},
        {f"{first}.py/inside.txt": "a folder that is called as a chapter"},
    ]
    write(destination, random_numbers.choice(ways))


MAKERS: dict[str, Callable[[Path, random.Random, int], None]] = {"right": _right, "partial": _partial, "wrong": _wrong, "empty": _empty, "broken": _broken}


def _attack(destination: Path, path: Path) -> None:
    text, *extra_files = EXTRA_FILE.split(path.read_text(encoding="utf-8"))
    write(destination, {CHAPTERS[0]: text} | dict(zip(extra_files[::2], extra_files[1::2])))


def _made_unique(texts: Texts, number: int) -> Texts:
    """Add a comment that makes the text unique."""
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
