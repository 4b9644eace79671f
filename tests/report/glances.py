"""A table at a glance, to look at."""

from __future__ import annotations

from quietshelf.report import Glance, GlanceCell, GlanceRow

SEEN = Glance(
    name="seen",
    title="Two shops",
    heads=("no privacy", "ρ = 1"),
    rows=(
        GlanceRow("ids only", "d 30", (GlanceCell("3.3 %", "ucb-mnl"), GlanceCell("9 %", "×2.7", tone=2.7, stuck=3))),
        GlanceRow("hotels", "d 49", (GlanceCell("4.6 %", "greedy"), GlanceCell("99 %", "×21", tone=21.0, worse=7))),
    ),
    foot=(("geometric mean", ("", "×7.5")),),
)
