"""The file of an interruptible run: `checkpoints/NAME/FILE.safetensors`, which is replaced as a whole.

Its tensors are what was trained and, until the run is finished, the state of its optimizers (`optimizer.`). The record
is JSON in its metadata.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.files import UserProblem, problem, short_path, write_whole
from grader.models import checkpoint
from grader.models.file_values import Kind, ValueProblem, check, explaining_damage, require_finite, table
from torch import Tensor

FORMAT, OPTIMIZER = "1", "optimizer."
Values = dict[str, Tensor]


def with_prefix(tensors: Values, prefix: str) -> Values:
    """Those whose names begin so, without the prefix."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


@dataclass(frozen=True)
class RunFile:
    """The files that one command writes, and what is said about them."""

    file: str
    command: str
    missing: str  # "there are no adapters"
    again: str  # what to do about a damaged file
    problem: type[UserProblem]
    values: Mapping[str, Kind]  # of the record
    needed: Collection[str]

    def save(self, folder: Path, record: Mapping[str, Any], tensors: Values) -> None:
        """Write the file. The problem if that is not possible; an earlier one then stays."""
        from safetensors.torch import save as to_bytes

        copies = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
        try:
            write_whole(folder / self.file, to_bytes(copies, {"format": FORMAT, "record": json.dumps(record)}))
        except OSError as error:
            with suppress(OSError):
                folder.rmdir()  # if it is empty
            raise self.problem(problem(error, f"write {short_path(folder / self.file)}")) from None

    def read(self, name: str | None) -> tuple[str, dict[str, Any], Values]:
        """The name, the record and the tensors of the run of this name, or of the latest. The problem if there is none,
        or if its file is damaged or of another kind."""
        from safetensors import safe_open

        found = [path.parent.name for path in self.list()]
        if not (name or found):
            raise self.problem(f"{self.missing} yet; `{self.command}` makes one")
        path = checkpoint.CHECKPOINTS / (name or found[0]) / self.file
        where = short_path(path)
        if not path.is_file():
            known = f"you have {', '.join(found[:6])}" if found else f"`{self.command}` makes one"
            raise self.problem(f"{self.missing} {name!r}; {known}")
        with explaining_damage(where, self.problem, self.again), safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118  # it is no dict
        if "record" not in metadata:
            raise self.problem(f"{where} was not written by `{self.command}`; {self.again}")
        if metadata.get("format") != FORMAT:
            raise self.problem(f"{where} was written by another version of Headway; {self.again}")
        try:
            record = json.loads(metadata["record"])
        except (ValueError, RecursionError):
            raise self.problem(f"the record in {where} is damaged; {self.again}") from None
        try:
            check({"record": record}, {"record": table(self.values)}, where, [f"record.{one}" for one in self.needed])
        except ValueProblem as trouble:
            raise self.problem(f"{trouble}; {self.again}") from None
        trained = {key: tensor for key, tensor in tensors.items() if not key.startswith(OPTIMIZER)}
        require_finite(trained, where, self.problem, self.again)
        return name or found[0], record, tensors

    def list(self) -> list[Path]:
        """These files, the newest first."""
        found = checkpoint.CHECKPOINTS.glob(f"*/{self.file}")
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)
