"""The tests of an audit, run on all cores: one family with one joint confidence."""

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
"""The slowest tests, started first."""


@dataclass(frozen=True)
class Task:
    """One test, by name, so that it can be sent to another process."""

    kind: Literal["mechanism", "policy"]
    name: str
    place: int
    rho: float

    def subject(self) -> Auditable:
        """The subject to audit."""
        if self.kind == "mechanism":
            return mechanism(self.name, self.rho)[self.place]
        return attack(self.name, VARIANTS[self.place], rho=self.rho)


Job = Callable[[tuple[int, Task], Callable[[int], None]], Finding]


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All findings of one audit; with the confidence of `measure`, none overstates a loss.

    Attributes:
        findings: One per test, in the order of the tasks.
        tasks: The tests.
        runs: Runs in each of a test's two worlds.
        seed: Seed of simulated noise; a real shelf's noise comes from the operating system and has none.
    """

    findings: tuple[Finding, ...]
    tasks: tuple[Task, ...]
    runs: int
    seed: int

    @property
    def refuted(self) -> bool:
        """Whether any claim is refuted."""
        return any(finding.refuted for finding in self.findings)


def tasks(mechanisms: Sequence[str], policies: Sequence[str], rho: float) -> list[Task]:
    """The tests of these mechanisms and policies; refuses unknown names."""
    made = [Task("mechanism", name, place, rho) for name in mechanisms for place in range(len(mechanism(name, rho)))]
    attacks = [Task("policy", name, place, rho) for name in policies for place in range(len(VARIANTS))]
    for task in attacks[:: len(VARIANTS)]:
        task.subject()
    return made + attacks


def usual(rho: float, *, thorough: bool) -> list[Task]:
    """The default tests: everything that claims to be sound, and the policies without privacy for comparison."""
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
    """Run all tests; the findings do not depend on the number of workers."""
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
