"""Choose what to show each visitor, learn from what they choose, and prove a limit to what it reveals."""

from quietshelf.__about__ import __version__
from quietshelf.curation.prior_file import PriorFile
from quietshelf.loop import contestant, simulate
from quietshelf.shelf import Shelf
from quietshelf.tables import Schema, infer

__all__ = ["PriorFile", "Schema", "Shelf", "__version__", "contestant", "infer", "simulate"]
