"""Features and theta -> probabilities and likelihood with its derivatives; rounds -> a fit with its certificate."""

from quietshelf.model.choice.fitting import Fit, fit
from quietshelf.model.choice.likelihood import (
    chosen_features,
    gradient,
    information,
    log_likelihood,
    log_partition,
    moments,
    probabilities,
    utilities,
)

__all__ = [
    "Fit",
    "chosen_features",
    "fit",
    "gradient",
    "information",
    "log_likelihood",
    "log_partition",
    "moments",
    "probabilities",
    "utilities",
]
