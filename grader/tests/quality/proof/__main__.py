"""`python -m grader.tests.quality.proof [NAME] [OPTIONS]`: all proofs, or the one called NAME (`NAME --help`)."""

from __future__ import annotations

import sys

from grader.tests.quality import proof
from grader.tests.quality.benchmarks.figures import run_by_name

if __name__ == "__main__":
    sys.exit(run_by_name(proof, "proof", sys.argv[1:]))
