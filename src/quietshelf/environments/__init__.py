"""A world and its seeds -> visitors, their choices, and exact regret. The tastes are known here and nowhere else."""

from quietshelf.environments.expedia import Hotels
from quietshelf.environments.logit import LogitRound
from quietshelf.environments.shop import Shop
from quietshelf.environments.synthetic import Synthetic

__all__ = ["Hotels", "LogitRound", "Shop", "Synthetic"]
