"""Proves that the kit keeps its promises where this takes longer than `make test` may.

`make proof` runs all proofs, `python -m grader.quality.proof NAME [OPTIONS]` runs one.
A proof is a module of this folder with a function `run(arguments: list[str]) -> int` (an exit status, 0 only if
everything holds): it tries something, and prints its result in a few plain lines. Write one, and `make proof` runs
it. Each has an option that makes it smaller. An interrupted proof continues where it stopped, because
`devcheck/pool.py` stores each result; only `reproduces` begins again.
"""
