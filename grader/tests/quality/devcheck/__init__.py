"""`headway dev-check`: whether every exercise keeps the kit's promises, and what a new one still lacks.

`check.py` runs it: `invariants.py` reads the files, `trying.py` runs the suites.

The rules of graded tests:

- Trivial code (`None`, a constant, zeros, the input, an error for everything) earns at most 10 %. So a test of an error
  or a shape also checks a good value.
- Inputs come from `tests/strategies.py`: different sizes, healthy scales, every parameter random, padding on both
  sides.
- A law that counts passes, calls or messages is a law on values: what is counted changes the result
  (`tests/changing_models.py`), or is counted where the code cannot reach it (`grader/verdict/memory.py`). An attack in
  `grader/tests/attacks/counts.toml` shows that a faked count loses the points.
- Make all calls first, and check afterwards: the diagnosis uses the calls before the first failure.
- A mistake is caught at every seed. Pin the essential case: `@example(n=at(B=1, T=2), seed=0)` above `@given`.
- All tests of an exercise take well under a second. They accept every correct way to write it, and never inspect how.
  Correct code rounds differently: draw values that are clear of a limit.
"""
