"""Checks whether the kit keeps its promises: dev-check, proofs that run for hours, benchmarks, the README's pictures. Not part of an installed package."""
