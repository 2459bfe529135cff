"""Measures how fast the kit is: `make bench`, or `python -m grader.tests.quality.benchmarks [NAME] [OPTIONS]`.

A benchmark is a module of this folder with a function `run(arguments: list[str]) -> int` (an exit status): it
measures and prints a table. Write one, with its `MINUTES` on two idle processors, and `make bench` runs it. `workplace.py` makes the copy of the kit that it
measures in, `figures.py` has what all of them print.
"""
