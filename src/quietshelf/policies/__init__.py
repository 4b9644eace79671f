"""A context and the last release -> the assortment to show; policies can reach no other data.

Policies that make the same offers from different releases share one class: only their curators differ.
"""

from collections.abc import Mapping
from types import MappingProxyType

from quietshelf.model.types import Policy
from quietshelf.policies.chance import Uniform
from quietshelf.policies.optimism import Greedy, Optimistic
from quietshelf.policies.ranking import Ranking
from quietshelf.policies.sampling import OptimisticDraw, Thompson

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        "quiet": OptimisticDraw(),
        "dpmnl": Optimistic(),
        "dpmnl-eps-delta": Optimistic(),
        "ucb-mnl": Optimistic(),
        "ofu-mnl": Optimistic(),
        "ts-mnl": Thompson(),
        "greedy": Greedy(),
        "uniform": Uniform(),
        "oracle": Greedy(),
    }
)
"""The policies by the names that the command line, settings and the service use."""

PRESENT: Mapping[str, Policy] = MappingProxyType({"ranking": Ranking(), "random": Uniform()})
"""What the learned policy is compared with."""

__all__ = ["POLICIES", "PRESENT", "Greedy", "Optimistic", "OptimisticDraw", "Ranking", "Thompson", "Uniform"]
