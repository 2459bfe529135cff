"""What the tutor's process cannot do, tried in a process with its guard; and what it never has in its memory."""

import json
import re
import subprocess
import sys

import pytest
from grader.course.known_mistakes import misconceptions
from grader.course.source import read_source
from grader.course.syllabus import SOLUTIONS, load_syllabus
from kit_copy import posix
from test_tutor_tools import CHAPTER, WRONG, write

READING = [
    f"open('solutions/{CHAPTER}.py')",
    f"open(b'solutions/{CHAPTER}.py', 'rb')",
    f"Path('exercises/../solutions/{CHAPTER}.py').read_text()",
    f"os.open('solutions/{CHAPTER}.py', os.O_RDONLY)",
    f"__import__('linecache').checkcache() or __import__('tokenize').open('solutions/{CHAPTER}.py')",
    f"__import__('tomllib').load(open('tests/misconceptions/{CHAPTER}.toml', 'rb'))",
    f"open('tests/test_{CHAPTER}_softmax.py')",
    "open('reference/ch03_attention.sealed')",
    "open('exercises/syllabus.toml')",
    f"open('exercises/{CHAPTER}.py')",
    "open('exercises/.headway/hints.json')",
    "open('grader/tests/field/ch03.toml')",
    "open('grader/tests/field/ch03.py')",
    "open('grader/teaching/show/catalog.toml')",
    "open('README.md')",
    "open(Path(sys.argv[1]))",
    "open('/dev/mem')",
    "__import__('sqlite3').connect('exercises/syllabus.toml')",
    "__import__('grader.course.syllabus', fromlist=['x']).load_syllabus()",
    "__import__('grader.execution.target', fromlist=['x']).resolve('solutions').source('ch03_attention').text",
]
WRITING = [
    *(f"open('exercises/{CHAPTER}.{kind}', '{mode}')" for kind in ("py", "md") for mode in ("a", "w", "r+", "rb+")),
    "open('new.txt', 'x')",
    "Path('new.txt').touch()",
    f"os.open('exercises/{CHAPTER}.md', os.O_RDWR)",
    f"os.remove('exercises/{CHAPTER}.py')",
    f"os.rename('exercises/{CHAPTER}.py', 'new.txt')",
    f"os.truncate('exercises/{CHAPTER}.py', 0)",
    f"__import__('shutil').copy('exercises/{CHAPTER}.md', 'new.md')",
    "os.chmod('exercises', 0o777)",
    "os.mkdir('new')",
    "os.rmdir('exercises/walks')",
]
PROGRAMS = [
    "subprocess.run(['ls'])",
    "subprocess.run('ls', shell=True)",
    "subprocess.run([sys.executable, '-c', ''])",
    "subprocess.run([sys.executable, '-P', '-m', 'grader.cli', 'diff', '--peek', '--', 'softmax'])",
    "subprocess.run([*START, 'hint', '--level=3', '--', 'softmax'])",
    "subprocess.run([*START, 'show', '--worker', '--', 'softmax'])",
    "subprocess.run([*START, 'check', '--', 'softmax'])",
    "subprocess.run([*START, 'hint', '--', 'softmax', '--level=3'])",
    "subprocess.run([*START, 'status', '--'], executable='/bin/ls')",
]
PROGRAMS_OF_POSIX = ["os.system('ls')", "os.execv('/bin/ls', ['ls'])", "os.posix_spawn('/bin/ls', ['ls'], {})", "os.fork()", "__import__('pty').fork()"]
ALLOWED = [
    f"open('exercises/{CHAPTER}.md').read()",
    "open('grader/tutor/guard.py').read()",
    "__import__('grader.course.stubs')",
    "__import__('wave')",
    "open(os.devnull, 'w')",
    "commands.run_command('next')",
]
GUARDED = """
import json, os, subprocess, sys
from pathlib import Path
from grader.tutor import commands, guard, server, tools
from grader.tutor.commands import START
server.make_server()
guard.install()
"""
TRIES = """
def happened(code):
    try:
        eval(code)
    except guard.Refused:
        return "refused"
    except BaseException as problem:
        return repr(problem)
    return "done"
print(json.dumps({code: happened(code) for code in json.loads(sys.stdin.read())}))
"""
# every text that the collector reaches, and the constants of all code; what the tools and their commands returned is kept
MEMORY = """
kept, run = [], subprocess.run
subprocess.run = lambda *arguments, **more: kept.append(run(*arguments, **more)) or kept[-1]
kept += [getattr(tools, name)("softmax") for name in ("check", "hint", "lesson", "picture", "smaller_example", "questions")]
from grader.course.syllabus import load_syllabus
import gc, types
seen, found, waiting = set(), set(), [sys.modules, *gc.get_objects()]
while waiting:
    one = waiting.pop()
    if id(one) in seen or one is seen or one is found or one is waiting:
        continue
    seen.add(id(one))
    if isinstance(one, str | bytes):
        found.add(one if isinstance(one, str) else one.decode("utf-8", "replace"))
    waiting += one.co_consts if isinstance(one, types.CodeType) else gc.get_referents(one)
print(json.dumps([load_syllabus.cache_info().currsize, sorted(name for name in sys.modules if name == "torch"), "\\n".join(found)]))
"""


def run(kit, script, text="", *arguments):
    done = subprocess.run(
        [sys.executable, "-c", GUARDED + script, *arguments], cwd=kit.root, env=kit.environment(), input=text, capture_output=True, encoding="utf-8"
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def happened(module_kit, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "notes.txt"
    elsewhere.write_text("a file of the learner's that is not part of the course")
    (module_kit.root / "reference").mkdir()
    (module_kit.root / "reference" / "ch03_attention.sealed").write_text("sealed")
    (module_kit.root / "README.md").write_text("# A file of the kit")
    more = []
    if sys.platform != "win32":
        (module_kit.exercises / "ch98_linked.md").symlink_to(module_kit.root / "solutions" / f"{CHAPTER}.py")
        more = [*PROGRAMS_OF_POSIX, "open('exercises/ch98_linked.md')"]
    return run(module_kit, TRIES, json.dumps([*READING, *WRITING, *PROGRAMS, *ALLOWED, *more]), str(elsewhere))


def outcomes(happened, codes):
    return {code: happened[code] for code in codes}


def test_it_reads_nothing_but_the_lessons_and_code_of_the_kit(happened):
    assert outcomes(happened, READING) == dict.fromkeys(READING, "refused")


def test_it_changes_no_file(happened):
    assert outcomes(happened, WRITING) == dict.fromkeys(WRITING, "refused")


def test_it_starts_only_the_fixed_commands(happened):
    assert outcomes(happened, PROGRAMS) == dict.fromkeys(PROGRAMS, "refused")


@posix
def test_it_follows_no_link_and_starts_nothing_in_other_ways(happened):
    tried = [code for code in happened if code in PROGRAMS_OF_POSIX or "linked" in code]
    assert len(tried) == len(PROGRAMS_OF_POSIX) + 1
    assert outcomes(happened, tried) == dict.fromkeys(tried, "refused")


def test_it_can_do_what_it_needs(happened):
    assert outcomes(happened, ALLOWED) == dict.fromkeys(ALLOWED, "done")


@pytest.mark.thorough
def test_its_memory_has_no_solution_no_later_hint_and_no_mistake_after_every_tool_was_used(kit):
    write(kit, "softmax", WRONG)
    syllabuses, torch, memory = run(kit, MEMORY)
    assert (syllabuses, torch) == (0, [])
    exercises = load_syllabus().exercises
    spoken = " ".join(memory.split())
    assert "Subtract the largest score of each slice before you exponentiate" in spoken, "the lesson is there: the search finds texts"
    assert load_syllabus().exercise("softmax").hints[0] in spoken and "Each weight is e^x divided by the sum" in spoken
    secret = [line for chapter in load_syllabus().chapters for line in solution_lines(chapter.name)]
    secret += [hint for exercise in exercises for hint in exercise.hints[exercise.name == "softmax" :]]
    secret += [mistake.with_ for exercise in exercises for mistake in misconceptions(exercise.module, exercise.name) if len(mistake.with_) > 40]
    assert len(secret) > 3000
    assert [text for text in set(secret) if " ".join(text.split()) in spoken] == []


def solution_lines(module):
    """The lines between the marks of a solution that are long enough to be recognised."""
    path = SOLUTIONS / f"{module}.py"
    text = read_source(path) if path.is_file() else ""
    blocks = re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", text, re.DOTALL)
    lines = (line.partition("  #")[0].strip() for block in blocks for line in block.splitlines())
    return [line for line in lines if len(line) > 28]
