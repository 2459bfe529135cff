"""`headway dev-check`: does every exercise keep the kit's promises? A test that catches nothing, a mistake without a diagnosis, a rejected variant: each is an error."""

from grader.quality.devcheck.check import run

__all__ = ["run"]
