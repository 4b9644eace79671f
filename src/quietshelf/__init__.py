"""Choose what to show each visitor, learn from what they choose, and prove a limit to what it reveals."""

from quietshelf.__about__ import __version__
from quietshelf.curation.prior_file import PriorFile
from quietshelf.data.tables import Schema, infer
from quietshelf.research.loop import contestant, simulate
from quietshelf.serving.shelf import Shelf

__all__ = ["PriorFile", "Schema", "Shelf", "__version__", "contestant", "infer", "simulate"]
