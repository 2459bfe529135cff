"""The kernels of chapter 21 in Triton: in its interpreter, compiled for a GPU, and on a GPU where there is one."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest
import torch
from grader.chapters.ch21_kernels import check_again
from grader.chapters.ch21_kernels.check_again import KERNELS, run_in_triton
from grader.chapters.ch21_kernels.triton_runs import make_launches, triton_text
from grader.cli.commands import check
from grader.course.known_mistakes import variants
from grader.course.syllabus import ROOT, load_syllabus
from grader.execution.simulated_gpu import launch
from grader.tests.quality.benchmarks import kernels as benchmark

REFERENCE = (ROOT / "solutions" / "ch21_kernels.py").read_text(encoding="utf-8")
NOT_IN_TRITON = {  # variants with what Triton does not have, and how it says so
    "two halves of a block": "raises ValueError: arange's arguments must be of type tl.constexpr",  # max of constants
    "blocks from the first one, and the diagonal's own loop, with products and sums instead of tl.dot": (
        "raises NameError: name 'read' is not defined"  # functions within functions
    ),
}
SAME = dict.fromkeys(KERNELS, "")

triton_is_there = pytest.mark.skipif(
    not check_again.find_spec("triton") or not check_again.find_spec("numpy"), reason="Triton is not installed (the extra `kernels`)"
)


# ---- without Triton


def test_each_kernel_of_the_chapter_has_inputs():
    exercises = load_syllabus().chapter("ch21").exercises
    assert [*KERNELS] == [each.name for each in exercises if each.name.endswith("_kernel")] == [*make_launches(torch.float32)]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_each_launch_writes_every_number_of_its_outputs(name, dtype):
    case = make_launches(dtype)[name]
    arguments = case.copy_arguments("cpu")
    names: dict = {}
    exec(REFERENCE, names)
    launch(names[name], case.grid, *arguments, **case.constants)
    outputs = [each for each in case.arguments if isinstance(each, torch.Tensor) and each.isnan().all()]
    assert outputs and not any(torch.equal(each.nan_to_num(), torch.zeros_like(each)) for each in outputs if not each.isnan().all())
    width = 21 if name == "softmax_kernel" else None  # its rows lie apart
    for before, after in zip(case.arguments, arguments):
        if isinstance(before, torch.Tensor):
            assert not after[..., :width].isnan().any() if after.dim() > 1 else not after.isnan().any()


SOURCE = '''
import math
import torch

SCALE: float = 2.0
HALF = SCALE / 4
UNUSED = torch.ones(3)


def unused(tl, x):
    return UNUSED


def doubled(tl, x: int, FACTOR: int = 2) -> int:
    """A helper."""
    return x * FACTOR * HALF


def add_kernel(tl, x, y, out, n: int, BLOCK: int) -> None:
    """What it does."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y + i, mask=i < n)
    tl.store(out + i, doubled(tl, tl.load(x + i, mask=i < n)).to(x.dtype.element_ty).to(y.dtype) + doubled(tl=tl, x=y, FACTOR=2), mask=i < n)
'''


def test_the_text_for_triton_has_what_the_kernel_uses_and_no_tl_among_the_parameters():
    text = triton_text(SOURCE, ["add_kernel"])
    assert text.startswith("import triton\nimport triton.language as tl\n\n")
    assert "SCALE = tl.constexpr(2.0)\n\nHALF = tl.constexpr(SCALE / 4)\n" in text
    assert "@triton.jit\ndef doubled(x, FACTOR: tl.constexpr=2):\n    return x * FACTOR * HALF\n" in text
    assert "@triton.jit\ndef add_kernel(x, y, out, n, BLOCK: tl.constexpr):\n    i = " in text
    assert "doubled(tl.load(x + i, mask=i < n)).to(x.dtype.element_ty).to(y.dtype) + doubled(x=y, FACTOR=2)" in text
    assert not {"unused", "UNUSED", "torch", "math", "What it does"} & set(text.replace("(", " ").split())


def test_nothing_is_said_without_triton_and_about_other_exercises(monkeypatch, tmp_path):
    (tmp_path / "file.py").write_text(REFERENCE)
    assert [*check_again.check_again(["roofline", "grouped_place"], tmp_path / "file.py")] == []
    monkeypatch.setattr(check_again, "find_spec", lambda name: None)
    assert [*check_again.check_again(["add_kernel"], tmp_path / "file.py")] == []


# ---- in the interpreter


@pytest.fixture
def says(tmp_path):
    """What `check_again` says about kernels of a source."""

    def say(source: str, *names: str) -> list[str]:
        (tmp_path / "file.py").write_text(source)
        return [*check_again.check_again(names, tmp_path / "file.py")]

    return say


def edited(before: str, after: str) -> str:
    assert REFERENCE.count(before) == 1, before
    return REFERENCE.replace(before, after)


@triton_is_there
def test_each_kernel_of_the_reference_has_the_same_numbers_in_the_interpreter():
    """float32 and float16."""
    assert run_in_triton(REFERENCE, KERNELS)[1] == SAME


@triton_is_there
def test_one_sentence_says_that_the_numbers_are_the_same(says):
    assert says(SOURCE, "roofline", "add_kernel")[0] == "In Triton's interpreter: the same numbers."


@triton_is_there
def test_each_variant_has_the_same_numbers_in_the_interpreter():
    """The first one of each kernel in one process, then the second ones, and so on."""
    different = []
    for number in itertools.count():
        texts = {name: ways[number][1] for name in KERNELS if len(ways := variants("ch21_kernels", name)) > number}
        if not texts:
            break
        for name, problem in run_in_triton("\n".join(texts.values()), [*texts])[1].items():
            way = variants("ch21_kernels", name)[number][0]
            if problem != NOT_IN_TRITON.get(way, ""):
                different.append(f"{name} ({way}) {problem}")
    assert number >= 3 and different == []


@triton_is_there
def test_a_kernel_that_differs_in_triton_is_told(says):
    """It looks at which tl it has."""
    source = edited("tl.load(x + i, mask=inside) + tl.load(y", "tl.load(x + i, mask=inside) * getattr(tl, 'FACTOR', 1) + tl.load(y")
    [sentence, *_] = says(source, "add_kernel")
    assert sentence.startswith("In Triton's interpreter: add_kernel ")
    source = edited("    inside = i < n\n", "    inside = i < n\n    n = 1.0 if 'Block' in type(i).__name__ else 2.0\n").replace(
        "tl.load(x + i, mask=inside) + tl.load", "n * tl.load(x + i, mask=inside) + tl.load"
    )
    [sentence, *_] = says(source, "add_kernel")
    assert sentence.startswith("In Triton's interpreter: add_kernel gives other numbers: out[0] is ")
    assert sentence.endswith(" on the simulated GPU (float32).")


@triton_is_there
@pytest.mark.parametrize(
    "line, problem",
    [
        ("    tl.device_assert_that()\n", "add_kernel raises AttributeError: "),
        ("    raise ValueError('of my own')\n", "add_kernel raises ValueError: of my own"),
        ("    import os; os._exit(3)\n", "add_kernel ended Python with status 3"),
        ("    import os; os.kill(os.getpid(), 9)\n", "add_kernel ended Python by signal 9"),
    ],
)
def test_what_a_kernel_raises_and_how_it_ends_is_one_sentence(line, problem):
    """The line runs in Triton only."""
    source = edited("    inside = i < n\n", f"    inside = i < n\n    if 'Block' not in type(i).__name__:\n    {line}")
    results = run_in_triton(source, ["rms_norm_kernel", "add_kernel", "softmax_kernel"])[1]
    assert results["rms_norm_kernel"] == "" and results["add_kernel"].startswith(problem.removeprefix("add_kernel "))
    assert results.get("softmax_kernel", "") == ""


@triton_is_there
def test_a_kernel_that_hangs_is_one_sentence():
    source = edited("    inside = i < n\n", "    inside = i < n\n    while 'Block' not in type(i).__name__:\n        pass\n")
    assert run_in_triton(source, ["add_kernel"], seconds=15)[1] == {"add_kernel": "did not end within 15 s"}


@triton_is_there
def test_check_says_it_about_the_learners_kernels(monkeypatch, tmp_path):
    (tmp_path / "ch21_kernels.py").write_text(REFERENCE)
    monkeypatch.setattr(check, "EXERCISES", tmp_path)
    exercises = [load_syllabus().exercise(name) for name in ("softmax", "roofline", "add_kernel")]
    assert next(check._check_again(exercises)) == "In Triton's interpreter: the same numbers."
    assert [*check._check_again(exercises[:2])] == []


# ---- for a GPU


def test_the_benchmark_says_that_there_is_no_gpu(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert benchmark.run([]) == 0
    assert capsys.readouterr().out == "kernels: not measured, there is no GPU (torch.cuda.is_available() is False)\n"


def test_the_benchmark_computes_the_same_as_torch():
    """Its kernels on the simulated GPU, with small inputs."""
    names: dict = {}
    exec(REFERENCE, names)
    seen = []
    for name, grid, arguments, constants, theirs in benchmark.make_cases(torch.device("cpu"), 6, 40, 2):
        launch(names[name], grid, *arguments, **constants)
        result = arguments[names[name].__code__.co_varnames.index(OUTPUTS.get(name, "out")) - 1]
        torch.testing.assert_close(result.float(), theirs().float(), rtol=1e-2, atol=1e-2)
        seen.append(name)
    assert seen == [*KERNELS]


OUTPUTS = {"matmul_kernel": "c", "cross_entropy_kernel": "gradient"}

COMPILE = """
import sys
from pathlib import Path
import torch
from grader.chapters.ch21_kernels.check_again import KERNELS
from grader.chapters.ch21_kernels.triton_runs import load_file, make_launches
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile

TYPES = {torch.float32: "*fp32", torch.float16: "*fp16", torch.int64: "*i64", torch.int8: "*i8"}
for dtype in (torch.float32, torch.float16):
    for name, case in make_launches(dtype).items():
        kernel = load_file(Path(sys.argv[1]))[name]
        values = dict(zip(kernel.arg_names, case.arguments)) | case.constants
        constants = {name: value for name, value in values.items() if name.isupper()}
        types = {name: TYPES[value.dtype] if isinstance(value, torch.Tensor) else "fp32" if isinstance(value, float) else "i32" for name, value in values.items()}
        source = ASTSource(kernel, types | dict.fromkeys(constants, "constexpr"), {(kernel.arg_names.index(name),): value for name, value in constants.items()})
        print(name, ".visible .entry" in compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])
"""


@triton_is_there
def test_each_kernel_of_the_reference_compiles_for_a_gpu_without_one(tmp_path):
    (tmp_path / "kernels.py").write_text(triton_text(REFERENCE, KERNELS))
    (tmp_path / "compile.py").write_text(COMPILE)
    command = [sys.executable, tmp_path / "compile.py", tmp_path / "kernels.py"]
    environment = check_again.os.environ | {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == [f"{name} True" for name in KERNELS] * 2, done.stderr[-2000:]


@triton_is_there
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is here (torch.cuda.is_available() is False)")
def test_each_kernel_of_the_reference_has_the_same_numbers_on_a_gpu(says):
    assert run_in_triton(REFERENCE, KERNELS, on_gpu=True)[1] == SAME
    assert says(REFERENCE, *KERNELS)[1] == f"On the GPU ({torch.cuda.get_device_name()}): the same numbers."
