"""The proof that the kit keeps its promises, where that takes longer than `make test` may: `make proof`, or `python -m grader.quality.proof NAME [OPTIONS]`.

A proof is a module of this folder with a function `run(arguments: list[str]) -> int` (an exit status, 0 only where everything held): it tries,
and prints in a few plain lines what it found. Write one, and `make proof` runs it. An option of its own makes each smaller, for a quick try.
What several proofs share stands beside them in modules without `run`.
"""
