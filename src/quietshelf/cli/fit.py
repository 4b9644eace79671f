"""``quietshelf fit``: estimate tastes from a log, exactly or privately."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table

from quietshelf.cli import log_options as logs
from quietshelf.cli.console import Delta, Json, Separator, figures, out, say, strict_json, writable
from quietshelf.model.types import require
from quietshelf.privacy.accounting import DELTA
from quietshelf.report.numbers import number

if TYPE_CHECKING:
    from quietshelf.model.choice.sums import Likelihood
    from quietshelf.privacy.release.private_newton import PrivateTastes

NOT_PRIVATE = "Not private: estimates, errors and likelihood come from the raw log."
PER_ROW = "The log has no person ids: the guarantee is to each row (round) of it, not to each person."
PER_PERSON = "Only the first round of every person counts."
OWN_LOG = (
    "This assumes that each round's features were computed from that round and public facts alone; nothing is promised "
    "for a log that was standardised, imputed or averaged with its own data."
)
COLLINEAR = (
    "features must not be collinear, or their tastes cannot be told apart: {mixes} (--ridge 1 fits them anyway; "
    "tastes that remain indistinguishable have no finite error)"
)
SCHEMA = (
    "This assumes that scales and levels in the schema come from the product table or from public knowledge, not from "
    "this log: a level listed only because somebody here had it gives them away."
)
REFUSED = (
    "a private fit needs a preparation that did not look at visitors' data; this file's did, or may have: "
    "{steps}. Prepare it again from its source with `quietshelf expedia prepare --public`, or fit with "
    "--allow-data-dependent, which promises nothing (rho is infinite)"
)

Rho = Annotated[float | None, typer.Option(help="Privacy budget rho (zCDP); without it the estimates are not private.")]
Capacity = Annotated[int, typer.Option(help="Declared number of items shown at once; private fits only.")]
Ridge = Annotated[float, typer.Option(help="Ridge penalty; fits without privacy only.")]
Prior = Annotated[Path | None, typer.Option(help="Write the fit to this file, for a shelf to start from; needs --rho.")]
AllowDataDependent = Annotated[
    bool,
    typer.Option("--allow-data-dependent", help="Fit a file whose preparation looked at the data; rho is infinite."),
]


def fit(
    log: logs.LogFile,
    rho: Rho = None,
    feature_map: logs.MapName = "concat",
    scales: logs.Scales = "",
    schema: logs.SchemaFile = None,
    capacity: Capacity = 10,
    delta: Delta = DELTA,
    ridge: Ridge = 0.0,
    prior: Prior = None,
    allow_data_dependent: AllowDataDependent = False,
    column: logs.Columns = None,
    separator: Separator = None,
    wide: logs.Wide = False,
    workers: logs.Workers = None,
    cluster: logs.ClusterAddress = None,
    as_json: Json = False,
) -> None:
    """Estimate tastes from a log, with standard errors; privately if rho is given.

    Example: quietshelf fit log.csv --rho 1 --map concat --scales "price=120:40,visitor_age=40:15" --prior prior.json
    """
    from quietshelf.model.choice.maps import feature_map as named

    require(rho is None or ridge == 0, "ridge is for fits without privacy: give one, not both", ridge=ridge, rho=rho)
    require(prior is None or rho is not None, "a prior must come from a private fit: give rho as well", rho=rho)
    writable(prior)
    chosen_map = named(feature_map)
    means = logs.Meaning(scales=scales, schema=schema, columns=column, separator=separator, wide=wide)
    with logs.reading(log, exact=rho is None, workers=workers, cluster=cluster) as in_parts:
        given = logs.declared_log(log, chosen_map, means, in_parts=in_parts)
        if rho is None:
            answer = _exact(given.log, chosen_map, ridge) | (in_parts.report.figures() if in_parts else {})
        else:
            _check(given, allow_data_dependent)
            found = _fitted(given, chosen_map, rho=rho, capacity=capacity)
            answer = _answer(given, chosen_map, found, delta)
            if prior is not None:
                _write_prior(prior, given, chosen_map, found, answer)
    if as_json:
        typer.echo(strict_json(answer))
    else:
        _print(answer)


def _check(given: Any, allow_data_dependent: bool) -> None:
    """Refuse a log whose preparation looked at the data, and warn about undeclared scales."""
    from quietshelf.data.logs.encoded import data_dependent

    if steps := () if allow_data_dependent else data_dependent(given.log):
        raise ValueError(REFUSED.format(steps="; ".join(steps)))
    logs.warn_unscaled(given)


def _exact(log: Any, chosen_map: Any, ridge: float) -> dict[str, Any]:
    from quietshelf.data.logs.collinear import mixes, root_of
    from quietshelf.data.logs.encoded import encoded
    from quietshelf.data.logs.partitioned import PartitionedLog
    from quietshelf.model.choice.dense import checked
    from quietshelf.model.choice.fitting import fit_sums

    data: Likelihood
    if isinstance(log, PartitionedLog):
        data, names, root = log, log.names, log.root
    else:
        ready = encoded(log, chosen_map)
        data, names = checked(*ready.rounds, outside=True), ready.names
        root = root_of(ready.rounds) if ridge == 0 else None
    if ridge == 0 and root is not None and (together := mixes(root, names)):
        raise ValueError(COLLINEAR.format(mixes="; ".join(together)))
    found = fit_sums(data, (len(names),), ridge=ridge)
    return {
        "private": False,
        "statement": NOT_PRIVATE,
        "coefficients": _lines(names, found.theta, found.standard_errors),
        "log_likelihood": float(found.log_likelihood),
        "rounds": data.rounds,
        "converged": bool(found.converged),
        "gradient_norm": float(found.gradient_norm),
    }


def _fitted(given: logs.Declared, chosen_map: Any, *, rho: float, capacity: int) -> PrivateTastes:
    """The private fit. It does not check for collinear features, which would mean looking at the log."""
    from quietshelf.data.logs.encoded import data_dependent
    from quietshelf.privacy.release.geometry import scaled_curvature, unknown_curvature
    from quietshelf.privacy.release.noise import DiscreteGaussian
    from quietshelf.privacy.release.private_newton import private_newton

    contributors, names, persons = _contributors(given.log, chosen_map)
    guess = unknown_curvature(len(names))
    if given.visitor_scale is not None and given.item_scale is not None:
        sides = {"visitor_scale": given.visitor_scale, "item_scale": given.item_scale}
        guess = scaled_curvature(chosen_map, **sides, capacity=capacity)
    return private_newton(
        contributors,
        rho=rho,
        curvature=guess,
        source=DiscreteGaussian(),
        unit="person" if persons else "visit",
        declared=given.known,
        data_dependent=data_dependent(given.log),
    )


def _contributors(log: Any, chosen_map: Any) -> tuple[Any, list[str], bool]:
    """The rounds that count, the names of their features, and whether persons are told apart."""
    from quietshelf.data.logs.encoded import encoded
    from quietshelf.data.logs.partitioned import PartitionedLog
    from quietshelf.privacy.release.partitioned_pairs import PartitionedPairs
    from quietshelf.privacy.release.private_newton import first_rounds
    from quietshelf.privacy.statistics import ObservedChoice

    if isinstance(log, PartitionedLog):
        return PartitionedPairs(log), log.names, log.persons
    rounds, names, person = (ready := encoded(log, chosen_map)).rounds, ready.names, ready.person
    features, choice, available = rounds if person is None else rounds.only(first_rounds(person))
    return ObservedChoice(features, available, choice), names, person is not None


def _answer(given: logs.Declared, chosen_map: Any, found: PrivateTastes, delta: float) -> dict[str, Any]:
    from quietshelf.data.logs.encoded import used_names
    from quietshelf.data.logs.searches import Searches

    promise = replace(found.ledger, budget=None).promise(delta=delta)  # nothing refuses the next run
    names = chosen_map.names(*used_names(given.log, chosen_map))
    return {
        "private": math.isfinite(promise.rho),
        "statement": _statement(promise, own_log=not isinstance(given.log, Searches), schema=given.schema is not None),
        "coefficients": _lines(names, found.theta, found.standard_errors),
        "rho": promise.rho,
        "epsilon": promise.epsilon,
        "delta": delta,
        "unit": "row" if promise.unit == "visit" else "person",
        "directions_below_noise": found.drowned,
        "scales_declared": given.known,
    }


def _write_prior(
    path: Path, given: logs.Declared, chosen_map: Any, found: PrivateTastes, answer: dict[str, Any]
) -> None:
    """Write the file a shelf can start from: estimates, their precision, their meaning and their cost."""
    from quietshelf.curation.prior_file import PriorFile
    from quietshelf.data.logs.encoded import used_names

    visitor_names, item_names = used_names(given.log, chosen_map)
    made = PriorFile.of(
        found,
        chosen_map,
        statement=answer["statement"],
        visitor_names=visitor_names,
        item_names=item_names,
        scales=given.scales,
        schema=None if given.schema is None else given.schema.to_dict(),
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save(path)
    say(f"written: {path}" + ("" if made.private else "; it is NOT PRIVATE, and says so"))


def _statement(promise: Any, *, own_log: bool, schema: bool) -> str:
    """What is promised, to whom and under which assumptions; or why nothing is."""
    if math.isinf(promise.rho):
        return " ".join(
            ["rho = infinity.", promise.words, *(event.detail for event in promise.events if math.isinf(event.rho))]
        )
    whom = PER_PERSON if promise.unit == "person" else PER_ROW
    return " ".join([whom, promise.words, *([OWN_LOG] if own_log else []), *([SCHEMA] if schema else [])])


def _lines(names: list[str], theta: Any, errors: Any) -> list[dict[str, Any]]:
    return [
        {"name": name, "estimate": float(value), "standard_error": float(error) if math.isfinite(error) else None}
        for name, value, error in zip(names, theta, errors, strict=True)
    ]


def _print(answer: dict[str, Any]) -> None:
    exact = "log_likelihood" in answer
    title = "tastes, private" if answer["private"] else f"tastes, {'' if exact else 'noisy but '}not private"
    drawn = Table(Column("feature", no_wrap=True), *figures("estimate", "± s.e."), title=title)
    for line in answer["coefficients"]:
        error = "∞" if line["standard_error"] is None else number(line["standard_error"])
        drawn.add_row(line["name"], f"{line['estimate']:.6f}", error)
    out.print(drawn)
    if exact:
        state = "converged" if answer["converged"] else "NOT converged: the data may be separable, try --ridge"
        out.print(f"log-likelihood {answer['log_likelihood']:.5f} over {answer['rounds']:,} rounds, {state}")
    else:
        units = "in declared units" if answer["scales_declared"] else "as they come: no scales are declared (--scales)"
        below, of = answer["directions_below_noise"], len(answer["coefficients"])
        out.print(f"Standard errors count the noise. Features are {units}.")
        state = f"below the noise in {below} of {of} directions" if below else f"above the noise in all {of} directions"
        out.print(f"The log is {state}.")
    out.print(answer["statement"])
