"""`headway dev-check`: is every exercise what the kit promises? A law that catches nothing, a mistake unnamed, a variant refused: each is an error."""

from grader.quality.devcheck.check import run

__all__ = ["run"]
