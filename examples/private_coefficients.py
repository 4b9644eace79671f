"""Fit a log you already have, privately: coefficients with standard errors that include the noise.

The log is a table in long format: one row per visit and item. Every person counts once, and the promise is to persons.
This does the same as ``quietshelf fit log.csv --rho 1 --map item --scales ... --prior prior.json``, and then starts a
shelf from it; needs ``pip install '.[data]'``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

from quietshelf import PriorFile, Shelf
from quietshelf.choice import fit
from quietshelf.data.logs.encoded import encoded, parse_scales, scaled
from quietshelf.data.logs.reading import read_log
from quietshelf.model.choice.maps import feature_map
from quietshelf.privacy.release.geometry import scaled_curvature
from quietshelf.privacy.release.noise import DiscreteGaussian
from quietshelf.privacy.release.private_newton import first_rounds, private_newton
from quietshelf.privacy.statistics import ObservedChoice

RHO, SHOWN = 1.0, 5
TASTES = {"price": -0.8, "rating": 0.6}  # per declared unit: 40 euros, half a star
SCALES = "price=120:40,rating=4:0.5"  # declared from what everybody knows about the trade, not measured on this log
VISITS = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000


def main() -> None:
    """Compare the private fit with the truth and the exact fit, which is not private: never publish a real one."""
    with tempfile.TemporaryDirectory() as folder:
        log = scaled(read_log(made_up_log(Path(folder) / "log.csv")), parse_scales(SCALES), feature_map("item"))
    ready = encoded(log, feature_map("item"))
    assert ready.person is not None, "this log says who came"  # noqa: S101 - it was made so below
    once, rounds = first_rounds(ready.person), ready.rounds
    features, choice, available = rounds.features[once], rounds.choice[once], rounds.available[once]
    guess = scaled_curvature(
        feature_map("item"), visitor_scale=np.ones(0), item_scale=np.ones(len(TASTES)), capacity=SHOWN
    )
    private = private_newton(
        ObservedChoice(features, available, choice), rho=RHO, curvature=guess, source=DiscreteGaussian(), unit="person"
    )
    exact = fit(features, choice, available)
    print(f"{'feature':10s} {'truth':>7s} {'exact':>7s} {'private':>7s}   ± s.e.")
    for place, name in enumerate(ready.names):
        truth = TASTES.get(name, 0.0)
        figures = (truth, exact.theta[place], private.theta[place])
        print(
            f"{name:10s} " + " ".join(f"{value:7.2f}" for value in figures) + f"   {private.standard_errors[place]:.2f}"
        )
    print(private.ledger.promise(delta=1e-6).words)
    names = tuple(TASTES)
    prior = PriorFile.of(private, feature_map("item"), item_names=names, scales=parse_scales(SCALES))
    hotels = np.array([[1.0, 0.0], [-1.0, 1.0], [2.0, -1.0], [-0.5, 0.5]])  # in declared units
    shelf = Shelf(catalogue=hotels, feature_map="item", capacity=2, rho=1.0, prior=prior)
    print(f"A shelf that starts from it shows its first visitor hotels {sorted(map(int, shelf.offer().items))}.")
    print(f"Somebody in the log who comes as well is promised rho = {shelf.privacy().budget:g} at most.")


def made_up_log(path: Path) -> Path:
    """Visits of persons, some of whom come twice."""
    rng = np.random.default_rng(6)
    lines = ["round,item,chosen,person,price,rating"]
    for visit in range(VISITS):
        price, rating = 120 + 40 * rng.normal(size=SHOWN), 4 + 0.5 * rng.normal(size=SHOWN)
        utility = TASTES["price"] * (price - 120) / 40 + TASTES["rating"] * (rating - 4) / 0.5
        place = int(np.append(utility + rng.gumbel(size=SHOWN), rng.gumbel()).argmax())
        person = f"p{visit % max(1, int(0.9 * VISITS))}"
        lines += [f"{visit},i{k},{int(k == place)},{person},{price[k]:.2f},{rating[k]:.2f}" for k in range(SHOWN)]
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    main()
