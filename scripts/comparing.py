"""How many visitors a comparison takes until it is decided, for docs/comparing.md: ``python -m scripts.comparing``."""

from __future__ import annotations

import numpy as np

from quietshelf.privacy.release.arm_sales import ArmSums, scale
from quietshelf.privacy.release.comparison import compare
from quietshelf.privacy.release.quiet_settings import Quiet

SHOPS, BATCHES, DIM, SEED = 100, 22, 6, 1702
RHO, SHARE, PRESENT = 1.0, 0.1, 0.03


def decided_after(learned: float, rng: np.random.Generator, *, noisy: bool) -> float:
    """Visitors until one shop's interval lies above zero."""
    config = Quiet(rho=RHO, comparison=SHARE, conversion=PRESENT)
    records: list[ArmSums] = []
    size: int | None = None
    for _ in range(BATCHES):
        size = config.batch_size(DIM, size)
        served = (half := int(rng.binomial(size, 0.5))), size - half
        bought = [rng.binomial(count, p) for count, p in zip(served, (learned, PRESENT), strict=True)]
        noise = scale(config.rho_to_compare) if noisy else 1e-9
        sums = np.repeat(np.array(bought, dtype=np.float64)[:, None], 2, axis=1)
        records.append(ArmSums(served, sums + rng.normal(0.0, noise, (2, 2)), noise))
        if sum(sum(each.visitors) for each in records) > 10 * size:
            break
    runs = compare(records, most=1.0, conversion=PRESENT).differences["revenue"]
    visitors = np.cumsum([sum(each.visitors) for each in records])
    return float(next((seen for seen, run in zip(visitors, runs, strict=True) if run.low > 0), np.inf))


def main() -> None:
    """Print the table."""
    for learned in (0.06, 0.045, 0.036, 0.033):
        cells = []
        for noisy in (True, False):
            rng = np.random.default_rng(SEED)
            found = sorted(decided_after(learned, rng, noisy=noisy) for _ in range(SHOPS))
            cells += [f"{found[int(q * SHOPS)]:,.0f}" for q in (0.5, 0.9)]
        print(f"| {1000 * learned:.0f} in 1,000 | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
