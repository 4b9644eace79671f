"""A study's section of the page: claims with verdicts, regret of every contestant, how to rerun it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quietshelf.privacy.accounting import epsilon_of
from quietshelf.privacy.accounting.figures import rounded_up
from quietshelf.report import PageTable, Section, Series
from quietshelf.report.numbers import number
from quietshelf.report.series import band, described, values_of
from quietshelf.report.svg import Markup
from quietshelf.research.experiments.claims import ClaimOutcome, Comparison
from quietshelf.research.experiments.study import Study

METHOD = (
    "Claims are tested on the rows: paired differences over replicates, Student intervals, all comparisons of a claim "
    "jointly at 95 % confidence (Bonferroni). ✔ all comparisons hold; ✘ at least one is significantly reversed; "
    "? neither."
)


def section(
    study: Study,
    outcomes: Sequence[ClaimOutcome],
    figures: Sequence[tuple[Markup, str]],
    *,
    tables: Sequence[PageTable],
    manifest: Mapping[str, Any],
    command: str,
) -> Section:
    """Compose the section of a study."""
    own = " (some worlds have their own number)" if any("horizon" in world for world in study.worlds) else ""
    size = f"{study.replicates} replicates of {study.horizon:,} visitors{own}, seed {study.seed}."
    claims = [claims_table(outcomes)] if outcomes else []
    return Section(
        title=study.title,
        text=[study.summary, size, *([METHOD] if outcomes else [])],
        tables=[*claims, *tables],
        figures=figures,
        rerun=command or f"quietshelf reproduce {study.name}",
        facts=_facts(manifest),
    )


def claims_table(outcomes: Sequence[ClaimOutcome]) -> PageTable:
    """One row per claim and group of settings, with its comparisons below."""
    rows = [
        (each.says, each.source, each.group, each.verdict, f"{each.holding} of {len(each.comparisons)}")
        for each in outcomes
    ]
    notes = [[_sentence(comparison) for comparison in each.comparisons] for each in outcomes]
    return PageTable("Claims", ("claim", "made by", "where", "verdict", "comparisons that hold"), rows, notes)


def regret_table(series: Sequence[Series], horizon: int, *, told: Collection[str], delta: float) -> PageTable:
    """Mean final regret of every contestant, with its confidence interval and proven rho.

    Args:
        series: All series.
        horizon: Visitors, unless a world has its own horizon.
        told: Settings to leave out, because others imply them.
        delta: The delta that epsilon is stated for.
    """
    every = dict.fromkeys(key for one in series for key in one.settings if key not in told)
    keys = [key for key in every if len(set(values_of(series, key)) - {None}) > 1]
    rows = []
    for one in series:
        mean, half = band(one.final)
        regret = f"{number(float(mean))} ± {number(float(half))}"
        rows.append(
            (
                described(one, keys) or one["policy"],
                regret,
                rounded_up(one.proven),
                rounded_up(epsilon_of(one.proven, delta)),
            )
        )
    caption = f"Final regret of every contestant (T = {horizon:,} unless stated otherwise)"
    return PageTable(
        caption, ("contestant, world", "mean ± 95 %", "ρ proven", f"ε at δ = {delta:g}"), rows, folded=True
    )


def told(study: Study) -> set[str]:
    """The settings that world names imply, if every world has a name of its own."""
    names = [world.get("name") for world in study.worlds]
    if None in names or len(set(names)) < len(names):
        return set()
    return {key for world in study.worlds for key in world} - {"name"}


def _sentence(each: Comparison) -> str:
    ends = f"{number(each.low)} to {number(each.high)}"
    return f"{each.verdict}: {each.subject}: {number(each.larger)} against {number(each.smaller)}, difference {ends}"


def _facts(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    versions = ", ".join(f"{name} {value}" for name, value in manifest["versions"].items())
    return [
        ("seed", str(manifest["seed"])),
        ("git revision", manifest["revision"] or "not a checkout"),
        ("versions", versions),
        ("platform", manifest["platform"]),
        ("config fingerprint", manifest["fingerprint"][:16]),
    ]
