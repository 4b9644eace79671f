"""``quietshelf replay`` as a user runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import command
from tests.data.logs.made_up import made_up
from tests.data.logs.parts import in_parts
from tests.research.environments.random_logs import random_log

SMALL = ["--map", "item", "--horizon", "200", "--replicates", "3"]


def test_replay_answers_in_three_ways_and_is_marked_not_private(tmp_path: Path) -> None:
    """Simulated, by rejection and by inverse propensity; random offers earn least; the mark is there."""
    table: Any = random_log(2500)
    table.to_csv(tmp_path / "log.csv", index=False)
    found = command("replay", str(tmp_path / "log.csv"), "--policy", "quiet,greedy,uniform", *SMALL, "--json")
    assert found.returncode == 0, found.stderr
    answer = json.loads(found.stdout)
    assert answer["private"] is False
    assert "Not private" in answer["statement"]
    quiet, greedy, uniform = answer["policies"]
    assert quiet["policy"] == "quiet rho=1"
    assert uniform["simulated"] < min(quiet["simulated"], greedy["simulated"]) <= quiet["best_possible"]
    for row in answer["policies"]:
        for name in ("rejection", "inverse_propensity"):
            assert row[name]["low"] < row[name]["value"] < row[name]["high"]
            assert row[name]["effective"] >= 30


def test_mistakes_end_in_one_message(tmp_path: Path) -> None:
    """Searches in place of a log, a map without features, more places than items: the rule and the value."""
    made_up(20).save(tmp_path / "hotels.npz")
    (tmp_path / "bare.csv").write_text("round,item,chosen\n1,a,1\n1,b,0\n")
    for arguments, message in (
        (("hotels.npz",), "replay needs a log in long or wide format"),
        (("bare.csv", "--map", "outer"), "the log must have features for this map, got feature_map='outer'"),
        (("bare.csv", "--capacity", "3"), "capacity must be between 1 and items=2, got capacity=3"),
    ):
        found = command("replay", str(tmp_path / arguments[0]), *arguments[1:])
        assert found.returncode == 2
        assert message in found.stderr
        assert "Traceback" not in found.stderr


def test_a_log_that_cannot_answer_says_why_and_is_simulated_still(tmp_path: Path) -> None:
    """Without candidates the replays are refused with the reason; the simulation offers all items."""
    table: Any = random_log(300)
    table[table["position"].notna()].to_csv(tmp_path / "shown.csv", index=False)
    found = command("replay", str(tmp_path / "shown.csv"), "--policy", "greedy,uniform", *SMALL)
    assert found.returncode == 0, found.stderr
    text = " ".join(found.stdout.split())
    assert "no answer: the log must have rows of items that could have been shown and were not" in text
    assert "offers every item of the log" in text
    assert "Not private" in text


def test_a_folder_of_parquet_files_is_replayed_as_one_file_is(tmp_path: Path) -> None:
    """All three answers, by two processes."""
    table: Any = random_log(1200).assign(time=lambda rows: rows["round"])
    table.to_parquet(tmp_path / "log.parquet", index=False)
    in_parts(table, tmp_path / "log", [300, 301, 800])
    call = ["--policy", "quiet,uniform", *SMALL, "--json"]
    whole, folder = (command("replay", str(tmp_path / name), *call) for name in ("log.parquet", "log"))
    assert folder.returncode == 0, folder.stderr
    expected, found = json.loads(whole.stdout), json.loads(folder.stdout)
    assert found["items"] == expected["items"]
    assert found["rows"] == len(table)
    for ours, theirs in zip(found["policies"], expected["policies"], strict=True):
        assert ours["simulated"] == pytest.approx(theirs["simulated"], rel=1e-10)
        for name in ("rejection", "inverse_propensity"):
            for figure in ("value", "low", "high", "matches", "effective", "rounds"):
                assert ours[name][figure] == pytest.approx(theirs[name][figure], rel=1e-10)
