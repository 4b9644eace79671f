"""Rounds, as arrays or a long table -> tastes, fitted exactly or privately, scikit-learn style (extra ``data``)."""

from quietshelf.research.estimators.choice_model import ChoiceModel, CollinearFeatures, ScalesNotDeclared
from quietshelf.research.estimators.long_format import LongRounds, from_long

__all__ = ["ChoiceModel", "CollinearFeatures", "LongRounds", "ScalesNotDeclared", "from_long"]
