"""The release of a comparison: what each arm sold in one batch, once, with Gaussian noise.

Releases: for each of the two arms of one full batch, ``number of choices + N(0, s²)`` and ``sum of revenue / most +
    N(0, s²)``, each visitor's revenue clipped to the declared most; and, without noise, how many visitors the arm
    served.
Neighbours: one visitor of the batch replaced; the slot, and with it the arm, stays.
Sensitivity: sqrt(2): one arm's two sums move by at most 1 each, the other arm's do not move.
Noise: s = sqrt(2) / sqrt(2 rho) in every coordinate, rho the comparison's share of the batch's budget.
Privacy: rho-zCDP for the batch, an entry of its own beside the pair's; the two add up to what a batch may cost.
Assumes: who serves a slot depends on that slot's own coin and on earlier releases alone, and the numbers served are
    counted by slots, never by answers; noise frozen when the batch opened, most before the first offer; each batch
    released once.
Reference: docs/proofs.md, section 19.
"""

from __future__ import annotations

from typing import NamedTuple

from quietshelf.model.types import FloatArray, positive
from quietshelf.privacy.accounting import Event, noise_for
from quietshelf.privacy.release.batch_pair import NARROWER, WIDER
from quietshelf.privacy.release.noise import NoiseSource, entry
from quietshelf.privacy.statistics import ARMS, OUTCOME_SENSITIVITY, OUTCOMES


class ArmSums(NamedTuple):
    """What is released.

    Attributes:
        visitors: How many visitors each arm served: learned, present. Exact: it says nothing about any visitor.
        sums: The noisy numbers of choices and sums of revenue in units of the declared most, (2 arms, 2).
        scale: Standard deviation of the noise.
        steady: Whether the share that the learned policy serves stayed the same over the batch.
    """

    visitors: tuple[int, int]
    sums: FloatArray
    scale: float
    steady: bool = True

    @property
    def compares(self) -> bool:
        """Whether its arms may be compared: both served visitors, and no season could favour one of them."""
        return self.steady and min(self.visitors) > 0


def scale(rho: float) -> float:
    """The noise that makes the release of one batch's outcomes cost rho.

    >>> round(scale(0.5), 6)
    1.414214
    """
    return noise_for(OUTCOME_SENSITIVITY, positive("rho", rho)) * WIDER


def release(outcomes: FloatArray, *, visitors: tuple[int, int], scale: float, source: NoiseSource) -> ArmSums:
    """Release the noisy sums of one full batch; enter ``events`` in the ledger first. Draws the noise, once."""
    noisy = outcomes + source.draw(scale, outcomes.shape)
    return ArmSums(visitors, noisy.reshape(*noisy.shape[:-1], len(ARMS), len(OUTCOMES)), scale)


def events(*, batch: int, scale: float, source: NoiseSource) -> tuple[Event]:
    """The cost of a release, known before the noise is drawn."""
    known = entry(source, "comparison", sensitivity=OUTCOME_SENSITIVITY, scale=scale * NARROWER, batch=batch)
    return (known,)
