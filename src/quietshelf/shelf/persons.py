"""Who may still contribute: persons are known by keyed hashes, and counted.

A person counts at most ``visits`` times for the shelf's lifetime and at most once a batch. The rule looks at that
person's own history only, so that nobody's counting depends on anybody else (docs/proofs.md, section 7).
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

from quietshelf.types import require


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
        name = self._hash(person)
        seen, last = self.counted.get(name, (0, -1))
        if seen >= visits or last == batch:
            return False
        self.counted[name] = (seen + 1, batch)
        return True

    def _hash(self, person: str) -> str:
        require(isinstance(person, str) and person != "", "person must be a non-empty text", person=type(person))
        return hashlib.blake2b(person.encode(), key=self.key, digest_size=16).hexdigest()
