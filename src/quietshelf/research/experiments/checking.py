"""Check a whole study before it runs, so that a typo in its last line does not surface after hours of work."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from quietshelf.model.types import one_of, require
from quietshelf.report.plotted import KEYS as FIGURE_KEYS
from quietshelf.report.plotted import KINDS as FIGURE_KINDS
from quietshelf.report.series import Series, matching, values_of
from quietshelf.research.environments import Shop, Synthetic
from quietshelf.research.environments.expedia import fitted
from quietshelf.research.experiments.claims import KEYS as CLAIM_KEYS
from quietshelf.research.experiments.claims import OPTIONAL as CLAIM_OPTIONAL
from quietshelf.research.experiments.claims import TRENDS
from quietshelf.research.experiments.contestants import make
from quietshelf.research.experiments.diagnostics import MEASURES
from quietshelf.research.experiments.gauntlet import KEYS as MERIT_KEYS
from quietshelf.research.experiments.gauntlet import KIND as MERITS
from quietshelf.research.experiments.gauntlet import floors
from quietshelf.research.experiments.study import Study
from quietshelf.research.experiments.worlds import KINDS, make_world

Settings = Mapping[str, Any]
OF_A_WORLD = ("name", "horizon", "kind", "optional")
WORLD_KEYS = {
    "synthetic": tuple(field.name for field in fields(Synthetic)),
    "shop": tuple(field.name for field in fields(Shop)),
    "hotels": ("data", "fit_ridge", *sorted({*inspect.signature(fitted).parameters} - {"searches", "ridge"})),
}


def check(study: Study) -> Study:
    """Return the study if everything it names exists: settings, policies, kinds, contestants to compare and draw."""
    for world in study.worlds:
        with _place(f"the world {world.get('name', dict(world))!r}"):
            _check_world(world)
    for policy in study.policies:
        with _place(f"the policy {policy.get('policy', dict(policy))!r}"):
            _check_policy(policy, [world.get("name") for world in study.worlds])
    entries = [entry for cell in study.cells for entry in cell.entries]
    series = [Series(entry.settings, times=np.empty(0), regret=np.empty((0, 0))) for entry in entries]
    for claim in study.claims:
        with _place(f"the claim {claim.get('says', '')!r}"):
            _check_claim(claim, series, watch=study.watch)
    for figure in study.figures:
        with _place(f"the figure {figure.get('name', '')!r}"):
            _check_figure(figure, series)
    return study


@contextmanager
def _place(where: str) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ValueError(f"in {where}: {error}") from error


def _check_world(world: Settings) -> None:
    kind = world.get("kind", "synthetic")
    one_of("kind", kind, KINDS)
    _keys(world, known=(*OF_A_WORLD, *WORLD_KEYS[kind]), needed=("data",) if kind == "hotels" else ())
    make_world(world)


def _check_policy(policy: Settings, worlds: Sequence[str | None]) -> None:
    require("policy" in policy, "a policy needs the key policy, its name", keys=list(policy))
    make(policy["policy"], policy)
    unknown = [name for name in policy.get("worlds", ()) if name not in worlds]
    require(not unknown, f"its worlds must be among the names {worlds}", unknown=unknown)


def _check_claim(claim: Settings, series: Sequence[Series], *, watch: bool) -> None:
    one_of("kind", claim.get("kind", ""), CLAIM_KEYS)
    needed = ("says", "kind", *CLAIM_KEYS[claim["kind"]])
    _keys(claim, known=(*needed, *CLAIM_OPTIONAL), needed=needed)
    chosen = _chosen(series, claim.get("where", {}), "where")
    for side in ("better", "worse"):
        _chosen(chosen, claim.get(side, {}), side)
    _settings(chosen, claim.get("by", ()), "by")
    if "along" in claim:
        _settings(chosen, [claim["along"]], "along")
        many = len(set(values_of(chosen, claim["along"])) - {None})
        require(many > 1, f"{claim['along']} must have two values or more here", values=many)
    one_of("direction", claim.get("direction", TRENDS[0]), TRENDS)
    for key in ("measure", "bound"):
        if key in claim and claim[key] != "regret":
            one_of(key, claim[key], ("regret", *MEASURES))
            require(watch, f"{claim[key]} is measured only if the study sets watch = true", watch=watch)


def _check_figure(figure: Settings, series: Sequence[Series]) -> None:
    kind = figure.get("kind", "curves")
    one_of("kind", kind, (*FIGURE_KINDS, MERITS))
    if kind == MERITS:
        _check_merits(figure, series)
        return
    _keys(figure, known=FIGURE_KEYS, needed=("name", "title", "lines", *(("x",) if kind == "final" else ())))
    chosen = _chosen(series, figure.get("where", {}), "where")
    _settings(chosen, figure["lines"], "lines")
    for key in ("rows", "columns", "x"):
        if key in figure:
            _settings(chosen, [figure[key]], key)
    for policy in figure.get("floor", ()):
        _chosen(series, {"policy": policy}, "floor")


def _check_merits(figure: Settings, series: Sequence[Series]) -> None:
    _keys(figure, known=MERIT_KEYS, needed=MERIT_KEYS)
    _settings(_chosen(series, figure["where"], "where"), [figure["columns"]], "columns")
    for world in values_of(series, "world"):
        require(world is not None, "merits need worlds with names", world=world)
        here = matching(series, {"world": world})
        _chosen(here, figure["where"], "where")
        _chosen(here, {"policy": figure["random"]}, "random")
        rest = [one["policy"] for one in floors(here, figure)]
        require(len(rest) == 1, f"{world!r} must have one policy that is neither judged nor random", rest=rest)


def _keys(given: Settings, *, known: Sequence[str], needed: Sequence[str]) -> None:
    unknown, missing = sorted(set(given) - set(known)), [key for key in needed if key not in given]
    require(not unknown, f"its keys are {', '.join(known)}", unknown=unknown)
    require(not missing, f"it needs {', '.join(needed)}", missing=missing)


def _settings(series: Iterable[Series], keys: Iterable[str], where: str) -> None:
    known = {"rho_proven", *(key for one in series for key in one.settings)}
    unknown = [key for key in keys if key not in known]
    require(not unknown, f"{where} must name settings of the contestants: {', '.join(sorted(known))}", unknown=unknown)


def _chosen(series: Sequence[Series], where: Settings, name: str) -> list[Series]:
    _settings(series, where, name)
    found = matching(series, where)
    require(bool(found), f"{name} must match a contestant", **{name: dict(where)})
    return found
