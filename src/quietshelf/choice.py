"""Rounds -> the tastes behind them: the maximum-likelihood fit of a multinomial logit."""

from quietshelf.model.choice import Fit, fit

__all__ = ["Fit", "fit"]
