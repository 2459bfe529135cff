"""`python -m grader.tests.quality.benchmarks [NAME] [OPTIONS]`: all benchmarks, or the one called NAME (`NAME --help`)."""

from __future__ import annotations

import sys

from grader.tests.quality import benchmarks
from grader.tests.quality.benchmarks.figures import run_by_name

if __name__ == "__main__":
    sys.exit(run_by_name(benchmarks, "benchmark", sys.argv[1:]))
