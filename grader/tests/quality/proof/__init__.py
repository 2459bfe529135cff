"""Proves that the kit keeps its promises where this takes longer than `make test` may.

`make proof` runs all proofs, `python -m grader.tests.quality.proof NAME [OPTIONS]` runs one.
A proof is a module of this folder with a function `run(arguments: list[str]) -> int` (an exit status, 0 only if
everything holds): it tries something, and prints its result in a few plain lines. Write one, with its `MINUTES` on two
idle processors, and `make proof` runs it. Each has options that make it smaller, such as `--exercise NAME`.
"""
