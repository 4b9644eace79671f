"""Whose visits still count: persons are identified by keyed hashes and counted.

A person counts at most ``visits`` times over the shelf's lifetime and at most once per batch. The rule looks only at
that person's own history, so that no one's counting depends on anyone else (docs/proofs.md, sections 6 and 7). If two
batches take arrivals at the same time, a visit to an earlier batch than the person's last one does not count.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import MutableMapping
from dataclasses import dataclass, field


@dataclass
class Persons:
    """Counts by keyed hash.

    Attributes:
        key: Secret: without it one cannot test whether a name is among the hashes. Stored apart from the counts.
        counted: For each hash, the number of visits counted so far and the batch of the last one.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def admit(self, person: str, *, batch: int, visits: int) -> bool:
        """Return whether this visit counts, and count it if so."""
        return admit(self.counted, self._hash(person), batch=batch, visits=visits)

    def _hash(self, person: str) -> str:
        return hashlib.blake2b(person.encode(), key=self.key, digest_size=16).hexdigest()


def admit(counted: MutableMapping[str, tuple[int, int]], name: str, *, batch: int, visits: int) -> bool:
    """R6: return whether a visit of this person counts, and count it if so. Only batch numbers matter."""
    seen, last = counted.get(name, (0, -1))
    if seen >= visits or batch <= last:
        return False
    counted[name] = (seen + 1, batch)
    return True
