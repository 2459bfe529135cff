"""What a worker contains of the reference: the earlier chapters as code without text, and nothing of its own chapter."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize

import pytest
from boundaries import forks
from grader.course.chapter_source import ChapterSource
from grader.course.syllabus import load_syllabus
from grader.execution.chapter_package import ChapterPackage, without_text
from grader.execution.proxy import Implementation
from grader.execution.target import Target, reference_of
from grader.verdict.trial import Trial
from linux_processes import alive

pytestmark = forks
CHAPTER = load_syllabus().chapter("ch05")
EARLIER = [chapter for chapter in load_syllabus().chapters if chapter.number < CHAPTER.number]
OWN_LINE = "# a comment that only the submission of this test has in it"

SUBMISSION = f"{OWN_LINE}\n" + textwrap.dedent('''
    import inspect, linecache, os, traceback
    from . import ch01_tokenizer, ch03_attention
    from .ch03_attention import MultiHeadAttention, softmax, split_heads


    def found_in_memory(needles):
        """Which of these strings, each given as its first three characters and its rest, are in this process's memory as one piece?"""
        found = set()
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
            for line in maps.read().splitlines():
                place, rights = line.split()[:2]
                if rights[:2] != "rw":
                    continue
                begin, end = (int(part, 16) for part in place.split("-"))
                try:
                    os.lseek(memory.fileno(), begin, 0)
                    data = memory.read(end - begin)
                except OSError:
                    continue
                for number, (start, rest) in enumerate(needles):
                    for encoding in ("ascii", "utf-16-le"):
                        first, words = start.encode(encoding), rest.encode(encoding)
                        at = data.find(words)
                        while at >= 0:
                            if at >= len(first) and data.startswith(first, at - len(first)):
                                found.add(number)
                            at = data.find(words, at + 1)
        return sorted(found)


    def texts_from_python():
        """All text that Python's own tools have of the earlier chapters' functions and classes."""
        said = ["".join(entry[2]) for name, entry in linecache.cache.items() if len(entry) == 4 and "ch05" not in name and "/lib/" not in name]
        for module in (ch01_tokenizer, ch03_attention):
            said.append(str(getattr(module, "__file__", "")))
            said.append(str(getattr(module.__spec__.loader.sources[module.__name__.rpartition(".")[2]], "text", "")))
            for thing in (module, *vars(module).values()):
                for way in (inspect.getsource, inspect.getdoc, inspect.getcomments, lambda thing: "".join(linecache.getlines(inspect.getfile(thing)))):
                    if thing is module or getattr(thing, "__module__", "") == module.__name__:
                        try:
                            said.append(way(thing) or "")
                        except (TypeError, OSError):
                            pass
        try:
            split_heads(None, None)
        except Exception:
            said += [line for line in traceback.format_exc().splitlines() if "ch05" not in line]
        return said


    def refusal(n):
        try:
            MultiHeadAttention(7, n)
        except ValueError as problem:
            return str(problem)
''')


@pytest.fixture
def learner(open_pool):
    """A submission of chapter 5 in a worker without a sandbox, where it may read all its memory."""
    trial = Trial(Target("submission", None, {CHAPTER.name: SUBMISSION}), in_worker=True, pool=open_pool, call_seconds=300.0)
    boundary = trial.boundary(CHAPTER.id)
    boundary.begin(1)
    yield Implementation(boundary)
    trial.close()


def characteristic(text: str) -> list[str]:
    """A comment, a line of a docstring and a line of code that occur nowhere else."""
    comments = [token.string for token in tokenize.generate_tokens(io.StringIO(text).readline) if token.type == tokenize.COMMENT]
    documented = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.Module)]
    docstrings = [line.strip() for node in documented for line in (ast.get_docstring(node) or "").splitlines()]
    code = [line.strip() for line in text.splitlines() if " = " in line and line.startswith("    ") and not line.strip().startswith("#")]
    code = [line.partition("  #")[0] for line in code if line not in docstrings]
    return [max((line for line in lines if line.isascii() and '"' not in line), key=len) for lines in (comments, docstrings, code)]


def test_no_text_of_the_reference_is_in_a_workers_memory(learner):
    """Its comments, docstrings and lines are not there, so Python's tools cannot show them either; the words of its errors are."""
    needles = [OWN_LINE, *(line for chapter in (*EARLIER, CHAPTER) for line in characteristic(reference_of(chapter.name).text))]
    found = learner.found_in_memory([[needle[:3], needle[3:]] for needle in needles])
    assert [needles[number] for number in found] == [OWN_LINE]
    said = "\n".join(learner.texts_from_python())
    assert not [line for line in needles[1:] if line in said]
    assert "def softmax" not in said and "solutions/ch" not in said and "reference/ch" not in said
    assert "7" in learner.refusal(2)


def test_a_chapter_without_text_does_what_it_does_with_text():
    text = textwrap.dedent('''
        """Doc."""

        from __future__ import annotations

        class A:
            """Doc."""
            x: int = 3

        def f(a):
            """Doc."""
            assert a > 0, "positive"
            return a + A.x
    ''')
    bare = without_text(ChapterSource("ch01_one", text, "/somewhere/ch01_one.py"))
    assert bare.text == "" and b"Doc" not in bare.code and b"somewhere" not in bare.code
    package = ChapterPackage([bare])
    module = package.module("ch01_one")
    assert module.f(1) == 4 and module.f.__doc__ is None and module.__doc__ is None
    with pytest.raises(AssertionError, match="positive"):
        module.f(0)
    package.close()


REPLACING = textwrap.dedent('''
    import gc, inspect, sys, traceback

    def softmax(x, dim=-1):
        raise NotImplementedError

    def scaled_dot_product_attention(q, k, v, mask=None, bias=None):
        return softmax(q @ k.transpose(-2, -1)), traceback.format_stack()

    def of_the_reference():
        """Every function and class of the reference's chapter 3 in this process, and the names in its code."""
        things = [thing for thing in gc.get_objects() if inspect.isfunction(thing) or inspect.isclass(thing)]
        theirs = [thing for thing in things if str(getattr(thing, "__module__", "")).endswith("_ch03_attention")]
        return sorted({thing.__qualname__ for thing in theirs if not thing.__module__.endswith(".ch03_attention")})

    def shown():
        try:
            softmax(None)
        except Exception:
            return traceback.format_exc() + str(inspect.getfile(softmax))
''')


def test_a_worker_has_only_the_replaced_definitions_and_a_worker_for_one_exercise_only(open_pool):
    syllabus = load_syllabus()
    trial = Trial(Target("submission", None, {"ch03_attention": REPLACING}), in_worker=True, pool=open_pool, call_seconds=300.0)
    pids = []
    for judged, replaced in (("softmax", ()), ("scaled_dot_product_attention", ("softmax",)), ("MultiHeadAttention", ("softmax",))):
        trial.replaced = replaced
        trial.begin_test(syllabus.exercise(judged), "test")
        boundary = trial.boundary("ch03")
        boundary.begin(1)
        assert boundary.replaced == replaced == trial.current_boundary.replaced
        learner = Implementation(boundary)
        assert learner.of_the_reference() == list(replaced)
        if replaced:
            said = learner.shown()
            assert "x.amax" not in said and "solutions" not in said and "<_ch03_attention>" in said
        assert not any(map(alive, pids)), "a submission has one worker at a time"
        pids.append(boundary.connection.process)
    assert len(set(pids)) == 3, "each exercise with replaced definitions has a worker of its own"
    trial.close()
