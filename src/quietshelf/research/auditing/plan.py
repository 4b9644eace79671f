"""What one audit covers, and how it is done on all cores: one family of tests, one confidence for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np

from quietshelf.model.types import integer
from quietshelf.research.auditing.attacks import VARIANTS, attack
from quietshelf.research.auditing.auditable import Auditable
from quietshelf.research.auditing.measure import FEWEST, Finding, audit
from quietshelf.research.auditing.mechanisms import KNOWN_FALSE, MECHANISMS, USUAL, mechanism
from quietshelf.research.loop.parallel import Progress, in_processes

POLICIES = ("quiet", "dpmnl", "greedy", "ucb-mnl")
THOROUGH_POLICIES = (*POLICIES, "dpmnl-eps-delta", "ts-mnl", "ofu-mnl")
RUNS, THOROUGH_RUNS = 8_000, 40_000
LONGEST = ("shelf", "private-newton")
"""They go first."""


@dataclass(frozen=True)
class Task:
    """One test, by name, so that it can travel to another process."""

    kind: Literal["mechanism", "policy"]
    name: str
    place: int
    rho: float

    def subject(self) -> Auditable:
        """What is to be audited."""
        if self.kind == "mechanism":
            return mechanism(self.name, self.rho)[self.place]
        return attack(self.name, VARIANTS[self.place], rho=self.rho)


Job = Callable[[tuple[int, Task], Callable[[int], None]], Finding]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All findings of one audit; with the confidence of `measure` none of them overstates a loss.

    Attributes:
        findings: One a test, in the order of the tasks.
        tasks: What was tested.
        runs: In each of the two worlds of a test.
        seed: Of simulated noise; a shelf's own noise comes from the operating system and has none.
    """

    findings: tuple[Finding, ...]
    tasks: tuple[Task, ...]
    runs: int
    seed: int

    @property
    def refuted(self) -> bool:
        """Whether any claim cannot be true."""
        return any(finding.refuted for finding in self.findings)


def tasks(mechanisms: Sequence[str], policies: Sequence[str], rho: float) -> list[Task]:
    """All tests of these mechanisms and policies; unknown names are refused."""
    made = [Task("mechanism", name, place, rho) for name in mechanisms for place in range(len(mechanism(name, rho)))]
    attacks = [Task("policy", name, place, rho) for name in policies for place in range(len(VARIANTS))]
    for task in attacks[:: len(VARIANTS)]:
        task.subject()
    return made + attacks


def usual(rho: float, *, thorough: bool) -> list[Task]:
    """What is audited unless something is named: all that claims to be sound, and what privacy is compared with."""
    if thorough:
        return tasks([name for name in MECHANISMS if name not in KNOWN_FALSE], THOROUGH_POLICIES, rho)
    return tasks(USUAL, POLICIES, rho)


def run_audit(
    wanted: Sequence[Task],
    *,
    runs: int = RUNS,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> Audit:
    """Do all tests, on several processes if there are workers; the findings do not depend on how many."""
    integer("runs", runs, low=FEWEST)
    integer("seed", seed, low=0)
    job = partial(_finding, tests=max(1, len(wanted)), runs=runs, seed=seed)
    done = _together(job, wanted, min(integer("workers", workers), len(wanted)), progress or (lambda *_: None))
    return Audit(findings=tuple(done), tasks=tuple(wanted), runs=runs, seed=seed)


def _together(job: Job, wanted: Sequence[Task], workers: int, progress: Progress) -> list[Finding]:
    parts = list(enumerate(wanted))
    if workers <= 1:
        found = []
        for part in parts:
            found.append(job(part, lambda _: None))
            progress(len(found), len(wanted))
        return found
    parts.sort(key=lambda part: part[1].name not in LONGEST)

    def report(done: int) -> None:
        progress(done, len(wanted))

    answers = {parts[at][0]: finding for at, finding in in_processes(job, parts, workers, report)}
    return [answers[place] for place in range(len(wanted))]


def _finding(part: tuple[int, Task], tick: Callable[[int], None], *, tests: int, runs: int, seed: int) -> Finding:
    place, task = part
    subject = task.subject()
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))
    count = max(FEWEST, runs // subject.slow)
    found = audit(subject, runs=count, rng=rng, tests=tests)
    tick(1)
    return found
