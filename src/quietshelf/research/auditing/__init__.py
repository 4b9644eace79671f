"""A mechanism in two neighbouring worlds -> a lower bound on the privacy it really loses; attacks on whole policies."""

from quietshelf.research.auditing.attacks import VARIANTS, attack
from quietshelf.research.auditing.auditable import Auditable, Claim, ExactCost
from quietshelf.research.auditing.linear import exact_rho, sampled
from quietshelf.research.auditing.measure import Finding, Roc, audit
from quietshelf.research.auditing.mechanisms import MECHANISMS, mechanism
from quietshelf.research.auditing.plan import Audit, Task, run_audit, tasks, usual

__all__ = [
    "MECHANISMS",
    "VARIANTS",
    "Audit",
    "Auditable",
    "Claim",
    "ExactCost",
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
