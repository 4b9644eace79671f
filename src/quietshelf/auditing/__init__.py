"""Neighbouring worlds, given a callable -> a lower bound on the privacy really lost; attacks on whole policies."""

from quietshelf.auditing.attacks import VARIANTS, attack
from quietshelf.auditing.auditable import Auditable, Claim, Exact
from quietshelf.auditing.linear import exact_rho, sampled
from quietshelf.auditing.measure import Finding, Roc, audit
from quietshelf.auditing.mechanisms import MECHANISMS, mechanism
from quietshelf.auditing.plan import Audit, Task, run_audit, tasks, usual

__all__ = [
    "MECHANISMS",
    "VARIANTS",
    "Audit",
    "Auditable",
    "Claim",
    "Exact",
    "Finding",
    "Roc",
    "Task",
    "attack",
    "audit",
    "exact_rho",
    "mechanism",
    "run_audit",
    "sampled",
    "tasks",
    "usual",
]
