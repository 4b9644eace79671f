"""Choose what to show each visitor, learn from what they choose, and prove a limit to what it reveals."""

from quietshelf.__about__ import __version__
from quietshelf.loop import contestant, simulate
from quietshelf.shelf import Shelf

__all__ = ["Shelf", "__version__", "contestant", "simulate"]
