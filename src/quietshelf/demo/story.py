"""The results of the demo: as plain data, and as the content of its page."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from quietshelf.__about__ import __version__
from quietshelf.demo.page import DemoStory
from quietshelf.demo.shop import LABELS, RHO, SEED, WORLD, Served
from quietshelf.model.types import FloatArray
from quietshelf.privacy.accounting import DELTA, epsilon_of
from quietshelf.privacy.accounting.figures import rounded_up
from quietshelf.report.charts import Curve
from quietshelf.report.series import band, from_the_start
from quietshelf.research.auditing import Finding
from quietshelf.research.auditing.verdicts import near, sentence, verdict, verdict_on_rates
from quietshelf.research.experiments.revenue import MeanInterval, kept_share, lost_share
from quietshelf.research.loop import Result

NEXT = (
    ("quietshelf plan --items 500 --capacity 8 --epsilon 2", "what to expect for a shop of your size"),
    ("quietshelf audit --report audit.html", "attack every mechanism and policy, not only this run"),
    (
        "quietshelf reproduce privacy-level --quick",
        "the paper's figures, scaled down; drop --quick to test its claims",
    ),
    ("quietshelf fit LOG.csv --rho 1", "tastes from your own log, privately"),
    ("quietshelf serve --database sqlite:///shop.db", "offers over HTTP, durable through crashes"),
    ("examples/", "a shop in Flask or FastAPI, hotels, news, your own policy, its audit: one file each"),
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One policy: revenue lost, in sales and as a share of the best, and its proven and claimed rho."""

    label: str
    regret: MeanInterval
    lost: MeanInterval
    rho: float
    claimed: float

    @property
    def epsilon(self) -> float:
        """The epsilon of the proven rho."""
        return epsilon_of(self.rho, DELTA)


@dataclass(frozen=True, kw_only=True)
class Demonstration:
    """All results; ``paper`` and ``paper_worth`` are those of the paper's world."""

    served: Served
    result: Result
    worth: FloatArray
    paper: Result
    paper_worth: FloatArray
    findings: list[Finding]
    seconds: float

    @property
    def lines(self) -> list[Line]:
        """One line per policy."""
        return [self._line(label) for label in self.result.labels]

    @property
    def kept(self) -> MeanInterval:
        """Revenue of `quiet` as a share of that without privacy."""
        return _kept(self.result, self.worth)

    @property
    def paper_kept(self) -> MeanInterval:
        """The same in the paper's world."""
        return _kept(self.paper, self.paper_worth)

    def _line(self, label: str) -> Line:
        final = self.result.regret[label][:, -1]
        return Line(
            label=label,
            regret=MeanInterval.of(final),
            lost=lost_share(final, self.worth, self.result.horizon),
            rho=self.result.proven_rho(label),
            claimed=max((ledger.nominal_rho for ledger in self.result.ledgers[label]), default=math.inf),
        )


def _kept(result: Result, worth: FloatArray) -> MeanInterval:
    quiet, open_ = (result.regret[LABELS[name]][:, -1] for name in ("quiet", "greedy"))
    return kept_share(quiet, open_, worth, result.horizon)


def plain(found: Demonstration) -> dict[str, Any]:
    """The results as plain data."""
    promise = found.served.shelf.privacy()
    curves = {curve.label: curve for curve in _curves(found.result)}
    return {
        "settings": settings(found),
        "policies": [
            {
                "policy": line.label,
                "regret": line.regret._asdict(),
                "lost_share": line.lost._asdict(),
                "rho": line.rho,
                "claimed_rho": line.claimed,
                "epsilon": line.epsilon,
                "curve": {"regret": curves[line.label].mean.tolist(), "half": curves[line.label].half.tolist()},
            }
            for line in found.lines
        ],
        "visitors": [0, *found.result.times],
        "kept_share": found.kept._asdict(),
        "kept_share_in_the_papers_world": found.paper_kept._asdict(),
        "shop": [
            {"release": release, "visitors": visitors, "share_of_best": share}
            for release, visitors, share in found.served.releases
        ],
        "promise": {key: value for key, value in promise.to_dict().items() if key != "events"},
        "audit": [
            {
                "attacked": finding.name,
                "worlds": finding.pair,
                "runs": finding.runs,
                "claimed_rho": finding.claim.rho,
                "measured_rho": finding.measured,
                "verdict": verdict(finding),
                "words": sentence(finding),
            }
            for finding in found.findings
        ],
    }


def settings(found: Demonstration) -> dict[str, Any]:
    """The settings of the run."""
    return {
        "items": WORLD.items,
        "capacity": WORLD.capacity,
        "dim": WORLD.dim,
        "conversion": WORLD.conversion_rate,
        "rho": RHO,
        "delta": DELTA,
        "horizon": found.result.horizon,
        "replicates": found.result.replicates,
        "shop_visitors": len(found.served.visits),
        "seed": SEED,
        "seconds": round(found.seconds, 1),
    }


def story(found: Demonstration) -> DemoStory:
    """The content of the page."""
    lines = found.lines
    return DemoStory(
        lead=(
            f"{WORLD.items} products, {WORLD.capacity} shown to each visitor, tastes unknown; from random offers, "
            f"{100 * WORLD.conversion_rate:g} visitors in 100 buy. The shop learns from purchases, and promises "
            f"every visit ρ = {RHO:g} for as long as it is open."
        ),
        number=found.kept.percent,
        headline=_headline(found),
        cards=list(_cards(found)),
        curves=list(_curves(found.result)),
        lost=[(line.label, line.lost.mean, _percent(line.lost.mean), place) for place, line in enumerate(lines)],
        policies=[_row(line) for line in lines],
        delta=DELTA,
        shop=[
            ["before the first" if release == 0 else str(release), f"{visitors:,}", _percent(share)]
            for release, visitors, share in found.served.releases
        ],
        promise=found.served.shelf.privacy().words,
        printed=_printed(lines),
        attacks=[_attack(finding) for finding in found.findings],
        audited=_audited(found.findings),
        next=NEXT,
        facts=_facts(found),
    )


def _cards(found: Demonstration) -> Iterator[tuple[str, str, str]]:
    quiet, sound, printed, open_, chance = found.lines
    yield str(quiet.regret), "sales lost by quiet", f"at ρ = {RHO:g}; without privacy {open_.regret}"
    yield str(sound.regret), "sales lost by the paper's policy", f"{printed.regret} with its printed constants"
    yield str(chance.regret), "sales lost by random offers", f"of {found.result.horizon:,} visitors in each shop"


def _headline(found: Demonstration) -> str:
    return (
        f"of the revenue without privacy: that is what quiet earned at ρ = {RHO:g} over its first "
        f"{found.result.horizon:,} visitors; {found.paper_kept.percent} in the paper's world, where nearly everybody "
        f"buys."
    )


def _curves(result: Result) -> Iterator[Curve]:
    x = np.array([0, *result.times], dtype=np.float64)
    for tone, (label, regret) in enumerate(result.regret.items()):
        yield Curve(label, x, *band(from_the_start(regret)), tone)


def _row(line: Line) -> list[str]:
    spent = (line.rho, line.claimed, line.epsilon)
    figures = [rounded_up(value) if math.isfinite(value) else "none" for value in spent]
    return [line.label, str(line.regret), _percent(line.lost.mean), *figures]


def _printed(lines: list[Line]) -> str:
    printed = next(line for line in lines if line.label == LABELS["printed"])
    return (
        f"The paper's policy as printed claims to have spent ρ = {rounded_up(printed.claimed)} in this run. This does "
        f"not hold here: its noise is calibrated for features in the unit ball, and this shop's are longer. Its sound "
        f"calibration clips them and spends what it says, less than ρ = {RHO:g} if it makes fewer fits than allowed."
    )


def _attack(finding: Finding) -> list[str]:
    level, power, limit = near(finding)
    most = "everything" if limit is None else _percent(limit)
    return [finding.name, finding.pair, _percent(level), _percent(power), most, verdict_on_rates(finding)]


def _audited(findings: list[Finding]) -> str:
    return (
        f"The attacker knows everybody in the first batch except one visitor, sees everything released, and must tell "
        f"what that visitor did. The shelf as shipped draws its release {findings[0].runs:,} times in each of two "
        f"worlds, at the settings of this run, with noise from the operating system. Half of the runs train the "
        f"attacker, the other half test it. Recognised: the share of true cases found at that rate of false alarms. "
        f"Allowed: the largest share that the promise permits. A measured share may exceed it slightly by sampling "
        f"error; the promise is refuted only if sampling error cannot explain the difference."
    )


def _facts(found: Demonstration) -> list[tuple[str, str]]:
    run = settings(found)
    return [
        ("quietshelf", __version__),
        ("shops side by side", f"{run['replicates']} of {run['horizon']:,} visitors each"),
        ("the one shop", f"{run['shop_visitors']:,} visitors, its noise from the operating system"),
        ("seed of visitors", str(run["seed"])),
        ("took", f"{run['seconds']:g} s on {os.cpu_count()} cores, Python {platform.python_version()}"),
    ]


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %" if abs(value) < 0.1 or value > 0.99 else f"{100 * value:.1f} %"
