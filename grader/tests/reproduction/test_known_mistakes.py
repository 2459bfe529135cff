"""The scripts of known mistakes, as the proof runs them."""

import subprocess
import sys

import pytest
from grader.course.syllabus import ROOT


@pytest.mark.thorough
def test_every_failure_of_a_known_mistake_is_made_again():
    names = ("causal_mask", "KVCache", "RMSNorm", "warmup_cosine", "top_p_filter", "train_bpe")
    command = [sys.executable, "-m", "grader.quality.proof", "reproduces", *(word for name in names for word in ("--exercise", name))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "compared" in done.stdout, done.stdout + done.stderr
