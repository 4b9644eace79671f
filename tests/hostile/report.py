"""What was tried, what was lost, the longest stall, the most memory: as Markdown for people, as JSON for machines."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.acknowledged import BROKEN
from tests.hostile.arena import Outcome
from tests.hostile.bounds import BOUNDS, SLACK


@dataclass
class Report:
    """All that was found so far, by database."""

    outcomes: dict[str, list[Outcome]] = field(default_factory=dict)
    kept: dict[str, dict[str, int]] = field(default_factory=dict)
    kills: dict[str, dict[str, Any]] = field(default_factory=dict)
    soaks: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def write(self, folder: Path) -> Path:
        """Both files; the one for people."""
        folder.mkdir(parents=True, exist_ok=True)
        machine = {"cores": os.cpu_count(), "load": os.getloadavg(), "system": platform.platform()}
        (folder / "hostile.json").write_text(json.dumps({"machine": machine, **asdict(self)}, indent=1) + "\n")
        (folder / "hostile.md").write_text(self.markdown())
        return folder / "hostile.md"

    def markdown(self) -> str:
        """The report for people."""
        told = [*self.kept.values(), *self.kills.values(), *self.soaks.values()]
        offers, choices = (sum(each[f"{name}_acknowledged"] for each in told) for name in ("offers", "choices"))
        lost = sum(each[name] for each in told for name in BROKEN)
        every = [outcome for outcomes in self.outcomes.values() for outcome in outcomes]
        stall = max((outcome.stall for outcome in every), default=0.0)
        memory = max((outcome.memory for outcome in every), default=0.0)
        kills = sum(each["kills"] for each in self.kills.values())
        state = "All bounds hold." if not self.broken else "Broken: " + "; ".join(self.broken) + "."
        head = [
            "# Under attack",
            "",
            f"{len(every)} scenarios, {kills} kills, {len(self.soaks)} soaks. Of {offers:,} offers and",
            f"{choices:,} choices that were acknowledged, and the releases that visitors were told of,",
            f"**{lost} were lost, doubled or early**. The longest stall of a bystander was **{stall:.2f} s**,",
            f"the most memory on top **{memory:.0f} MiB**.",
            f"Load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.",
            "",
            state,
            "",
        ]
        for database, outcomes in self.outcomes.items():
            head += [f"## {database}", "", *_table(outcomes), ""]
        for title, found in (("Kills", self.kills), ("Soak", self.soaks)):
            for database, figures in found.items():
                head += [f"## {title}, {database}", "", "| | |", "|---|---|"]
                head += [
                    f"| {name.replace('_', ' ')} | {_plain(value)} |"
                    for name, value in figures.items()
                    if name != "by_part"
                ] + [""]
        return "\n".join(head)


def _table(outcomes: list[Outcome]) -> list[str]:
    rows = ["| | tried | found | longest stall | memory on top | |", "|---|---|---|---|---|---|"]
    for each in sorted(outcomes, key=lambda outcome: outcome.number):
        bound = BOUNDS[each.number]
        stall = f"{each.stall:.2f} s of {bound.stall * SLACK:g}"
        memory = f"{each.memory:.0f} MiB of {bound.memory:g}"
        state = "holds" if not each.broken else "**broken**: " + "; ".join(each.broken)
        rows.append(f"| {each.number} | {each.tried} | {_plain(each.found)} | {stall} | {memory} | {state} |")
    return rows


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name.replace('_', ' ')}: {_plain(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int | float) else str(value)
