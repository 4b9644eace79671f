"""Features and theta -> probabilities and likelihood with its derivatives; rounds -> a fit with its certificate."""

from quietshelf.choice.features import Catalogued, Dense
from quietshelf.choice.fitting import Fit, fit
from quietshelf.choice.likelihood import (
    Moments,
    chosen_features,
    gradient,
    information,
    log_likelihood,
    log_partition,
    moments,
    probabilities,
    utilities,
)
from quietshelf.choice.maps import FeatureMap, feature_map

__all__ = [
    "Catalogued",
    "Dense",
    "FeatureMap",
    "Fit",
    "Moments",
    "chosen_features",
    "feature_map",
    "fit",
    "gradient",
    "information",
    "log_likelihood",
    "log_partition",
    "moments",
    "probabilities",
    "utilities",
]
