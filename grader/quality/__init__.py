"""Checks whether the kit keeps its promises. Not part of an installed package.

devcheck/     `headway dev-check`: what every exercise promises
proof/        `make proof`: proofs that run for minutes or hours; the mutants
benchmarks/   `make bench`: how fast the kit is
readme_pictures.py  `make readme`: pictures recorded from real runs
"""
