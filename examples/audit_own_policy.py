"""Audit your own policy: does it keep its promise?

The policy learns a click rate for each of five items and releases them once, with Gaussian noise. One visitor clicks at
most one item, so replacing a visitor moves two of the counts by one: the counts move by sqrt(2), not by 1. The first
version forgets that, and the audit says so; the second does not.
"""

from __future__ import annotations

import math
import sys
from functools import partial

import numpy as np

from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import noise_for
from quietshelf.privacy.accounting.figures import rounded_down
from quietshelf.research.auditing import Auditable, Claim, audit
from quietshelf.research.auditing.verdicts import sentence, verdict

ITEMS, OTHERS, RHO = 5, 40, 1.0
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SENSITIVITIES = {"sensitivity 1, a mistake": 1.0, "sensitivity sqrt(2)": math.sqrt(2)}


def release(sensitivity: float, secret: bool, runs: int, rng: np.random.Generator) -> FloatArray:
    """What the policy releases, (runs, ITEMS), in one of two worlds: the target clicked item 0, or item 1."""
    clicks = np.bincount(np.arange(OTHERS) % ITEMS, minlength=ITEMS).astype(float)
    clicks[0 if secret else 1] += 1
    return clicks + noise_for(sensitivity, RHO) * rng.standard_normal((runs, ITEMS))


def main() -> None:
    """Audit both versions."""
    for name, sensitivity in SENSITIVITIES.items():
        subject = Auditable(
            name=name,
            pair="the target clicked item 0 or item 1",
            claim=Claim(rho=RHO, gaussian=True),
            run=partial(release, sensitivity),
        )
        found = audit(subject, runs=RUNS, rng=np.random.default_rng(0), tests=len(SENSITIVITIES))
        print(f"{name}: claimed rho = {RHO:g}, measured at least {rounded_down(found.measured)}: {verdict(found)}")
        print(f"    {sentence(found)}")


if __name__ == "__main__":
    main()
