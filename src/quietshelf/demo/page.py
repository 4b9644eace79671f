"""The page of the demo: what was lost, what privacy cost, what is promised, what an attacker can do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quietshelf.report.charts import Curve, Words, bars, line_chart, log_axis
from quietshelf.report.document import (
    commands,
    facts,
    figure,
    folded,
    headline,
    quote,
    section,
    table,
    text,
    write_document,
)
from quietshelf.report.svg import BROAD


@dataclass(frozen=True, kw_only=True)
class DemoStory:
    """The content of the page, figures as text.

    Attributes:
        lead: One sentence on the shop.
        number: The headline's number.
        headline: What that number says.
        cards: Key figures: (figure, what it is, a remark).
        curves: Revenue lost against visitors.
        lost: Bars: (policy, share of the best revenue lost, the same as text, tone).
        policies: A row per policy: name, regret, share lost, proven rho, rho claimed by its authors, epsilon.
        delta: The delta that epsilon is stated for.
        shop: A row per release: release, visitors served from it, their share of the best revenue.
        promise: The promise as the shelf words it.
        printed: A remark on the paper's constants.
        attacks: A row per attack: target, worlds, false alarms, true cases recognised, allowed, verdict.
        audited: How the audit was done.
        next: (command, purpose).
        facts: (name, value).
    """

    lead: str
    number: str
    headline: str
    cards: Sequence[tuple[str, str, str]]
    curves: Sequence[Curve]
    lost: Sequence[tuple[str, float, str, int]]
    policies: Sequence[Sequence[str]]
    delta: float
    shop: Sequence[Sequence[str]]
    promise: str
    printed: str
    attacks: Sequence[Sequence[str]]
    audited: str
    next: Sequence[tuple[str, str]]
    facts: Sequence[tuple[str, str]]


def demo_page(path: Path, story: DemoStory) -> Path:
    """Write the page."""
    sections = [
        headline(story.headline, story.number),
        facts(story.cards),
        _regret(story),
        _price(story),
        section(
            "One shop, release by release",
            text(
                "Visitors come in batches. When a batch is full, its noisy sums are released once, and later visitors "
                "are served from the releases so far. A batch's data is never read again."
            ),
            table(
                ("release", "visitors served from it", "of the best revenue"), story.shop, caption="Release by release"
            ),
        ),
        section("What is promised", quote(story.promise), text(story.printed)),
        section(
            "An audit of this very run",
            table(
                ("attacked", "the attacker must tell whether", "false alarms", "recognised", "allowed", "verdict"),
                story.attacks,
                caption="Attacks on this run",
                words=2,
            ),
            text("An audit can refute a promise but not prove one; the proofs are in docs/proofs.md."),
        ),
        folded("How the audit was done", text(story.audited)),
        section("What next", commands(story.next)),
        folded("What made this page", table(("what", "value"), story.facts, caption="What made this page", words=2)),
    ]
    return write_document(
        path, title="A shop that learns without telling", lead=story.lead, sections=sections, kind="Demonstration"
    )


def _regret(story: DemoStory) -> str:
    words = Words(
        "lost", "Revenue lost while learning", "Mean over shops.", x="visitors", y="sales lost so far (log scale)"
    )
    chart = line_chart(story.curves, words, y=log_axis(story.curves), widest=BROAD, height=320)
    caption = (
        "Sales lost against the best offers, at a price of 1 each. Mean over independent shops, where all policies "
        "serve the same visitors; bands are 95 % confidence."
    )
    return section("Revenue lost while learning", figure(chart, caption))


def _price(story: DemoStory) -> str:
    head = ("policy", "sales lost", "of the best", "proven ρ", "claimed ρ", f"ε at δ = {story.delta:g}")
    return section(
        "The price of privacy",
        bars(story.lost, caption="Share of the best revenue that was lost"),
        table(head, story.policies, caption="The price of privacy"),
    )
