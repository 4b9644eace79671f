"""Events: frozen data that never understate and survive strict JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quietshelf.privacy.accounting import HISTORY, Assumption, Event, gaussian, noise_for
from quietshelf.privacy.accounting.figures import round_up, rounded_up

scales = st.floats(1e-150, 1e150)


def event(**changes: Any) -> Event:
    """An ordinary event, with changes."""
    ordinary: dict[str, Any] = {
        "name": "score",
        "batch": 3,
        "sensitivity": 2.0,
        "noise": 2.0,
        "rho": 0.5,
        "assumption": Assumption.EXACT_GRID,
    }
    return Event(**{**ordinary, **changes})


@given(sensitivity=scales, noise=scales)
@settings(deadline=None)
def test_gaussian_never_understates_its_cost(sensitivity: float, noise: float) -> None:
    """Rho is the least float from sensitivity² / (2 noise²) on, in exact arithmetic."""
    rho = gaussian("x", sensitivity=sensitivity, noise=noise, batch=0, assumption=Assumption.EXACT_GRID).rho
    exact = Fraction(sensitivity) ** 2 / (2 * Fraction(noise) ** 2)
    assert rho >= exact
    assert math.isinf(rho) or math.nextafter(rho, 0.0) < exact


@given(sensitivity=scales, rho=st.floats(1e-12, 1e8))
@settings(deadline=None)
def test_noise_for_inverts_gaussian_from_the_safe_side(sensitivity: float, rho: float) -> None:
    """Calibrated noise costs at most the rho asked for, and at least that up to rounding."""
    noise = noise_for(sensitivity, rho)
    cost = gaussian("x", sensitivity=sensitivity, noise=noise, batch=0, assumption=Assumption.EXACT_GRID).rho
    assert rho * (1 - 1e-14) <= cost <= rho


@pytest.mark.parametrize(("sensitivity", "noise"), [(2.0, 0.0), (0.0, 0.0), (math.inf, 5.0)])
def test_gaussian_without_noise_or_without_bound_is_infinite(sensitivity: float, noise: float) -> None:
    """An exact release, and one that nothing bounds, promise nothing."""
    released = gaussian("x", sensitivity=sensitivity, noise=noise, batch=0, assumption=Assumption.EXACT_GRID)
    assert released.rho == math.inf


@pytest.mark.parametrize("unknown", [None, math.nan, np.float64("nan")])
def test_event_of_unknown_cost_is_infinite(unknown: Any) -> None:
    """On doubt the ledger reads infinite."""
    assert event(rho=unknown).rho == math.inf


@given(
    rho=st.one_of(st.floats(0, 1e300), st.just(math.inf)),
    nominal=st.one_of(st.none(), st.floats(0, 1e300), st.just(math.inf)),
    batch=st.one_of(st.just(HISTORY), st.integers(0, 10**9)),
    assumption=st.sampled_from(Assumption),
    name=st.text(min_size=1),
)
@settings(deadline=None)
def test_event_survives_strict_json(
    rho: float, nominal: float | None, batch: Any, assumption: Assumption, name: str
) -> None:
    """Every field comes back as it was, infinity included, without leaving the JSON standard."""
    before = event(rho=rho, nominal_rho=nominal, batch=batch, assumption=assumption, name=name, detail=name)
    text = json.dumps(before.to_dict(), allow_nan=False)
    assert Event.from_dict(json.loads(text)) == before


def test_event_record_keeps_its_field_names() -> None:
    """Ledgers outlive the code: these names and codes never change."""
    assert event(batch=HISTORY, sensitivity=math.inf, rho=math.inf, nominal_rho=0.1).to_dict() == {
        "name": "score",
        "batch": "history",
        "sensitivity": "infinity",
        "noise": 2.0,
        "rho": "infinity",
        "assumption": "exact-grid",
        "nominal_rho": 0.1,
        "detail": "",
    }
    assert Assumption("real-arithmetic").words == "continuous Gaussian; real arithmetic assumed"
    assert Assumption("exact-grid").words == "exact discrete Gaussian on a public grid"


def test_event_is_frozen_and_plain() -> None:
    """NumPy numbers become Python numbers, and nothing can be altered afterwards."""
    plain = event(rho=np.float64(0.5), batch=np.int64(3), noise=np.float32(2.0))
    assert plain == event()
    assert type(plain.batch) is int
    with pytest.raises(dataclasses.FrozenInstanceError):
        plain.rho = 0.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"name": ""}, "name must be a word or more"),
        ({"name": 3}, "name must be a word or more"),
        ({"rho": -0.1}, "rho must be at least zero, got rho=-0.1"),
        ({"rho": "0.1"}, "rho must be at least zero"),
        ({"rho": True}, "rho must be at least zero"),
        ({"nominal_rho": -1.0}, "nominal_rho must be at least zero"),
        ({"nominal_rho": math.nan}, "nominal_rho must be at least zero"),
        ({"sensitivity": -2.0}, "sensitivity must be at least zero"),
        ({"sensitivity": math.nan}, "sensitivity must be at least zero"),
        ({"noise": -1.0}, "noise must be at least zero and finite"),
        ({"noise": math.inf}, "noise must be at least zero and finite"),
        ({"batch": -1}, 'batch must be "history", "log" or the number of a batch'),
        ({"batch": "all"}, 'batch must be "history", "log" or the number of a batch'),
        ({"batch": 1.0}, 'batch must be "history", "log" or the number of a batch'),
        ({"batch": True}, 'batch must be "history", "log" or the number of a batch'),
        ({"assumption": "exact-grid"}, "assumption must be an Assumption"),
        ({"detail": None}, "detail must be text"),
    ],
)
def test_event_refuses_what_is_out_of_range(changes: dict[str, Any], rule: str) -> None:
    """The message names the rule and the value."""
    with pytest.raises(ValueError, match=rule):
        event(**changes)


@pytest.mark.parametrize("change", [{"rho": "much"}, {"assumption": "hope"}, {"assumption": []}, {"extra": 1}])
def test_event_refuses_a_malformed_record(change: dict[str, Any]) -> None:
    """Unknown fields, codes and words for numbers are refused."""
    with pytest.raises(ValueError, match="must"):
        Event.from_dict({**event().to_dict(), **change})


@pytest.mark.parametrize("missing", [field.name for field in dataclasses.fields(Event)])
def test_event_refuses_a_record_with_a_field_missing(missing: str) -> None:
    """No field has a default on disk."""
    record = event().to_dict()
    del record[missing]
    with pytest.raises(ValueError, match="an event must have the fields"):
        Event.from_dict(record)


@pytest.mark.parametrize(("sensitivity", "rho"), [(0.0, 1.0), (1.0, 0.0), (1.0, math.inf), (1e300, 1e-300)])
def test_noise_for_refuses_what_no_noise_reaches(sensitivity: float, rho: float) -> None:
    """Zero budget, an unlimited one and scales beyond the floats have no calibration."""
    with pytest.raises(ValueError, match=r"must be positive and finite|no finite noise"):
        noise_for(sensitivity, rho)


@given(value=st.fractions(min_value=0))
@settings(deadline=None)
def test_round_up_is_the_least_float_not_below(value: Fraction) -> None:
    """Rounding goes upwards, and only where a float cannot hold the value."""
    rounded = round_up(value)
    assert rounded >= value
    assert rounded == 0 or math.nextafter(rounded, 0.0) < value


@given(value=st.floats(1e-12, 1e12))
@settings(deadline=None)
def test_shown_figures_are_never_below_the_truth(value: float) -> None:
    """Printed figures are rounded upwards, to four digits, up to the documented 1e-12."""
    assert value * (1 - 1e-11) <= float(rounded_up(value)) <= value * (1 + 1e-3)


def test_an_event_of_an_earlier_version_is_read() -> None:
    """A ledger outlives the code: what is now called batch was once called visitors."""
    record = event().to_dict()
    record["visitors"] = record.pop("batch")
    assert Event.from_dict(record) == event()
    with pytest.raises(ValueError, match="an event must have the fields"):
        Event.from_dict({**record, "batch": 3})
