"""Runs kernels that have passed in Triton too, whose language they use, if the extra `kernels` is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from grader.course.syllabus import ROOT

KERNELS = (
    "add_kernel", "softmax_kernel", "rms_norm_kernel", "long_softmax_kernel", "matmul_kernel", "attention_kernel",
    "cross_entropy_kernel", "int8_matmul_kernel",
)  # fmt: skip
SECONDS = 120.0  # of one process, which runs all kernels that it is given
SOURCE, RESULTS = "kernels.py", "results.json"  # in the folder of the process


def check_again(names: Sequence[str], file: Path) -> Iterator[str]:
    """A sentence about these exercises of the file in Triton's interpreter, and one about a GPU where there is one."""
    kernels = [name for name in names if name in KERNELS]
    if not kernels or not find_spec("triton") or not find_spec("numpy"):
        return
    source = file.read_text(encoding="utf-8")
    gpu, results = run_in_triton(source, kernels)
    yield _describe("In Triton's interpreter", results)
    if gpu:
        yield _describe(f"On the GPU ({gpu})", run_in_triton(source, kernels, on_gpu=True)[1])


def _describe(where: str, results: dict[str, str]) -> str:
    problems = [f"{name} {problem}" for name, problem in results.items() if problem]
    return f"{where}: {'; '.join(problems) or 'the same numbers'}."


def run_in_triton(
    source: str, kernels: Sequence[str], on_gpu: bool = False, seconds: float = SECONDS
) -> tuple[str, dict[str, str]]:
    """Run these kernels of a source in a process of their own, which may hang or crash. Return the name of a GPU, "" if
    there is none, and for each kernel how its numbers differ from the simulated GPU's, or what happened; "" for the
    same numbers."""
    with tempfile.TemporaryDirectory(prefix="headway-") as name:
        folder = Path(name)
        (folder / SOURCE).write_text(source, encoding="utf-8")
        environment = os.environ | {
            "TRITON_INTERPRET": "0" if on_gpu else "1",  # is read when Triton is imported
            "TRITON_F32_DEFAULT": "ieee",  # tl.dot of float32 in float32; otherwise a GPU drops 13 bits of each number
            "TRITON_CACHE_DIR": name,
        }
        module = f"{__package__}.triton_runs"
        command = [sys.executable, "-m", module, name, "cuda" if on_gpu else "cpu", *kernels]
        null = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdin=null, stdout=null, stderr=null) as process:
            try:
                status = process.wait(seconds)
                end = f"ended Python with status {status}" if status >= 0 else f"ended Python by signal {-status}"
            except subprocess.TimeoutExpired:
                end = f"did not end within {seconds:g} s"
            finally:
                process.kill()
        try:
            gpu, results = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
        except FileNotFoundError:  # it was the first one
            gpu, results = "", {}
    if len(results) < len(kernels):
        results[kernels[len(results)]] = end
    return gpu, results
