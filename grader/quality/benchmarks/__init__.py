"""How quick the kit is, measured: `make bench`, or `python -m grader.quality.benchmarks [NAME] [OPTIONS]`.

A benchmark is a module of this folder with a function `run(arguments: list[str]) -> int` (an exit status): it measures and prints a table.
Write one, and `make bench` runs it. `workplace.py` gives it a copy of the kit to work in, `figures.py` what all of them print,
`processes.py` what Linux tells of processes.
"""
