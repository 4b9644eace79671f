"""Replay of a log in Parquet files: the answers of the same log in memory."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.logs.parts import in_parts
from tests.research.environments.random_logs import random_log

from quietshelf.data.logs import partitions as module
from quietshelf.data.logs.layout import Layout
from quietshelf.data.logs.partitions import Form, partitions
from quietshelf.data.logs.reading import as_log
from quietshelf.data.logs.survey import survey
from quietshelf.model.choice.maps import feature_map
from quietshelf.research.environments import Hotels
from quietshelf.research.environments.replay import Logged, world_of
from quietshelf.research.loop import SimulationContext, replaying_parts
from quietshelf.research.loop.named import contestant
from quietshelf.research.loop.replaying import replayable, replays
from quietshelf.research.loop.replaying_parts import PartitionedReplay, answers_of, replay_facts, world_of_parts

ITEM = feature_map("item")


def shop_log(rounds: int) -> Any:
    """Four to six candidates per round, unequal revenues, a mark of random draws on most rounds, and time."""
    table = random_log(rounds, items=6, shown=2)
    rng = np.random.default_rng(1)
    short = rng.uniform(size=rounds) < 0.5
    table = table[~(short[table["round"]] & (table["item"] > 3) & table["position"].isna())].reset_index(drop=True)
    marked = (rng.uniform(size=rounds) < 0.9).astype(int)
    return table.assign(random=marked[table["round"]], revenue=1.0 + 0.01 * table["item"], time=table["round"] // 3)


def opened(folder: Path) -> Any:
    return survey(partitions(folder, Layout()), Form(feature_map=ITEM), exact=True)


@pytest.mark.parametrize("cuts", [[], [100, 101, 700]])
def test_replay_of_partitions_equals_replay_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cuts: list[int]
) -> None:
    """World, rejection and inverse propensity to 1e-10, for policies that learn, draw or stand still."""
    monkeypatch.setattr(module, "BATCH", 500)
    table = shop_log(1500)
    log, parts = as_log(table), opened(in_parts(table, tmp_path / "log", cuts))
    world, facts = world_of(log, ITEM), replay_facts(parts)
    ours = world_of_parts(parts, facts, ridge=1.0, capacity=None, seed=0)
    assert isinstance(world, Logged)
    assert isinstance(ours, Logged)
    for name in ("x", "available", "revenue", "theta", "capacity"):
        np.testing.assert_allclose(getattr(ours, name), getattr(world, name), rtol=1e-10, atol=1e-12)
    setting = SimulationContext(world=world, worlds=1, horizon=len(log), tastes=lambda: world.theta[None])
    replay = PartitionedReplay(parts.partitions, parts.form, facts)
    for policy in ("quiet", "uniform", "greedy"):
        one = contestant(policy, rho=1.0 if policy == "quiet" else None)
        expected = replays(partial(replayable, log, log.offerable(ITEM)), one, setting, seed=4)
        found = answers_of(one, replay=replay, world=ours, horizon=len(log), seed=4)
        for name, theirs in expected.items():
            mine = found[name]
            if isinstance(theirs, str):
                assert mine == theirs
            else:
                assert not isinstance(mine, str)
                assert mine.method == theirs.method
                assert list(asdict(mine).values())[1:] == pytest.approx(list(asdict(theirs).values())[1:], rel=1e-10)


def test_a_world_without_candidates_offers_every_item_of_all_files(tmp_path: Path) -> None:
    """At its average over all of them; the log itself gives no answer, and says why."""
    table = random_log(300)
    table = table[table["position"].notna()]
    table = table.assign(item="item " + table["item"].astype(str))
    parts = opened(in_parts(table, tmp_path / "log", [50, 120]))
    facts = replay_facts(parts)
    ours, world = world_of_parts(parts, facts, ridge=1.0, capacity=None, seed=0), world_of(as_log(table), ITEM)
    assert isinstance(ours, Hotels)
    assert isinstance(world, Hotels)
    np.testing.assert_allclose(ours.catalogue, world.catalogue, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(ours.theta, world.theta, rtol=1e-10, atol=1e-10)
    replay = PartitionedReplay(parts.partitions, parts.form, facts)
    found = answers_of(contestant("greedy"), replay=replay, world=ours, horizon=300, seed=0)
    assert all("could have been shown and were not" in str(reason) for reason in found.values())


def test_a_world_of_many_rounds_keeps_a_sample_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as it may, each one of the log's, equal for equal seeds; the tastes are those of all rounds."""
    monkeypatch.setattr(replaying_parts, "WORLD_ROUNDS", 40)
    table = shop_log(200)
    parts = opened(in_parts(table, tmp_path / "log", [3, 90]))
    facts = replay_facts(parts)
    one, again, other = (world_of_parts(parts, facts, ridge=1.0, capacity=None, seed=n) for n in (0, 0, 1))
    whole = world_of(as_log(table), ITEM)
    assert isinstance(one, Logged)
    assert isinstance(whole, Logged)
    assert one.x.shape == (40, *whole.x.shape[1:])
    np.testing.assert_array_equal(one.x, again.x)  # type: ignore[union-attr]
    assert not np.array_equal(one.x, other.x)  # type: ignore[union-attr]
    everyone = {each.tobytes() for each in whole.x}
    assert {each.tobytes() for each in one.x} <= everyone
    assert len({each.tobytes() for each in one.x}) == 40
    np.testing.assert_allclose(one.theta, whole.theta, rtol=1e-10, atol=1e-10)


def test_files_out_of_time_are_refused(tmp_path: Path) -> None:
    """Within a file or between two: a replay that reads on cannot go back."""
    table = shop_log(60)
    last = int(table["time"].max())
    for number, cuts in enumerate(([], [30])):
        times = (table["time"] + 15) % (last + 1)
        parts = opened(in_parts(table.assign(time=times), tmp_path / str(number), cuts))
        with pytest.raises(ValueError, match="in the order of time"):
            replay_facts(parts)
