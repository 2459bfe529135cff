"""What a test leaves in a trial: the requests of its last example, for the diagnosis, and what counts for the tests after it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

from grader.execution.host_connection import Exchange


@dataclass(frozen=True)
class Record:
    """The requests of one test's last example: enough to replay them on a known mistake."""

    test: str
    passed: bool
    seed: int
    log: list[Exchange]

    @cached_property
    def paths(self) -> list[bytes]:
        """For each request a fingerprint of it and all requests before it."""
        digest, found = hashlib.blake2b(f"{self.test} {self.seed}".encode(), digest_size=16), []
        for exchange in self.log:
            digest.update(repr((exchange.op, exchange.tree)).encode())
            for buffer in exchange.buffers:
                digest.update(buffer)
            found.append(digest.digest())
        return found


@dataclass
class Traces:
    """What tests have left in a trial: what `Trial.add` needs to make an attempt at a test count."""

    records: dict[str, list[Record]] = field(default_factory=dict)
    record_bytes: dict[str, int] = field(default_factory=dict)
    timeouts: dict[str, int] = field(default_factory=dict)
