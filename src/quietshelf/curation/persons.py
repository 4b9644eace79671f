"""Who may still contribute: persons are known by keyed hashes, and counted.

A person counts at most ``visits`` times for the shelf's lifetime and at most once per batch. The rule looks at that
person's own history only, so that nobody's counting depends on anybody else (docs/proofs.md, sections 6 and 7). Where
two batches take arrivals at the same time, a visit to an earlier one than that of the last visit does not count.
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
        key: Secret; whoever lacks it cannot test whether a name is among the hashes. Kept apart from the counts.
        counted: For each hash, how many visits counted so far and the batch of the last one.
    """

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)

    def admit(self, person: str, *, batch: int, visits: int) -> bool:
        """Whether this visit counts; if so it is counted."""
        return admit(self.counted, self._hash(person), batch=batch, visits=visits)

    def _hash(self, person: str) -> str:
        return hashlib.blake2b(person.encode(), key=self.key, digest_size=16).hexdigest()


def admit(counted: MutableMapping[str, tuple[int, int]], name: str, *, batch: int, visits: int) -> bool:
    """R6: whether one more visit of this person counts; if so it is counted. Only batch numbers are looked at."""
    seen, last = counted.get(name, (0, -1))
    if seen >= visits or batch <= last:
        return False
    counted[name] = (seen + 1, batch)
    return True
