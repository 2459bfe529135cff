"""The packages that some commands need besides Headway's own: the extras of pyproject.toml, mostly `play`."""

from __future__ import annotations

from importlib.util import find_spec

from grader.files import UserProblem

MODELS = ("safetensors", "numpy")  # safetensors uses numpy, and does not require it
INSTALL = 'pip install -c constraints.txt -e ".[{extra}]"'


class MissingPackages(UserProblem):
    """A command needs packages that are not installed."""

    def __init__(self, sentence: str, exit_status: int) -> None:
        super().__init__(sentence)
        self.exit_status = exit_status


def require_packages(command: str, names: tuple[str, ...] = MODELS, exit_status: int = 2, extra: str = "play") -> None:
    """MissingPackages if a package is not installed."""
    if sentence := missing_packages(command, names, extra):
        raise MissingPackages(sentence, exit_status)


def missing_packages(command: str, names: tuple[str, ...] = MODELS, extra: str = "play") -> str | None:
    """The sentence about packages that are not installed; None if all are."""
    if not find_spec("torch"):
        return "torch is not installed for this Python; `headway doctor` says what to do"
    if not (missing := [name for name in names if not find_spec(name)]):
        return None
    return (
        f"`headway {command}` needs {' and '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not "
        f"installed: run {INSTALL.format(extra=extra)}"
    )
