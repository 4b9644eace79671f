"""Weights, revenues and constraints -> the assortment with the largest expected revenue, exactly."""

from quietshelf.model.assortment import best

__all__ = ["best"]
