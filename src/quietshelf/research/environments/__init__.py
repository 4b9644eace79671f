"""A world and its seeds -> visitors, their choices, and exact regret. The tastes are known here and nowhere else."""

from quietshelf.research.environments.expedia import Hotels
from quietshelf.research.environments.logit import LogitRound
from quietshelf.research.environments.shop import Shop
from quietshelf.research.environments.synthetic import Synthetic

__all__ = ["Hotels", "LogitRound", "Shop", "Synthetic"]
