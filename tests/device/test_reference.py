"""The device in Python: what it computes is what the service takes, whatever its visitor brings."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.device.fixtures import cases

from quietshelf.curation.batches import Batch
from quietshelf.curation.device import Wishes, _frozen, choose, contributed

SOME = json.loads(json.dumps(cases(400, 3), allow_nan=False))


def test_every_honest_contribution_is_taken_as_it_is() -> None:
    """Ties, extremes, every map: what a device computes passes the service's test, number for number."""
    for each in SOME["contributions"]:
        document = SOME["batches"][each["batch"]]
        batch = Batch(_frozen(document), document["score_grid"], 60.0)
        taken = contributed(each["score"], each["rows"], batch)
        assert np.array_equal(taken, np.concatenate([each["score"], np.ravel(each["rows"])]))
    assert len(SOME["contributions"]) > 300


def test_a_device_shows_what_may_be_shown() -> None:
    """At most as many as fit, none that is excluded or not on offer, and no item twice."""
    for each in SOME["choices"]:
        catalogue = SOME["catalogues"][each["catalogue"]]
        offerable = {name for name, on in zip(catalogue["ids"], catalogue["offerable"], strict=True) if on}
        allowed = offerable - set(each["exclude"])
        allowed &= allowed if each["candidates"] is None else set(each["candidates"])
        assert len(set(each["items"])) == len(each["items"]) <= each["capacity"]
        assert set(each["items"]) <= allowed


def test_features_of_another_length_are_refused() -> None:
    """By the rule that the service has."""
    case = next(each for each in SOME["choices"] if each["visitor"])
    model, catalogue = SOME["models"][case["model"]], SOME["catalogues"][case["catalogue"]]
    with pytest.raises(ValueError, match="features must have length"):
        choose(model, catalogue, case, Wishes([*case["visitor"], 0.0]))


def test_at_most_the_slots_capacity_is_asked_for_also_where_there_are_fewer_items() -> None:
    """As the service has it: more than there are items is fine, more than the slot's capacity is not."""
    sizes = [len(catalogue["ids"]) for catalogue in SOME["catalogues"]]
    case = next(each for each in SOME["choices"] if each["capacity"] > sizes[each["catalogue"]])
    model, catalogue = SOME["models"][case["model"]], SOME["catalogues"][case["catalogue"]]
    wishes = Wishes(case["visitor"], case["candidates"], case["exclude"], case["capacity"])
    shown = choose(model, catalogue, case, wishes)
    assert [catalogue["ids"][item] for item in shown.items] == case["items"]
    for capacity in (case["capacity"] + 1, 0, -1):
        with pytest.raises(ValueError, match="capacity must be between 1 and"):
            choose(model, catalogue, case, wishes._replace(capacity=capacity))
