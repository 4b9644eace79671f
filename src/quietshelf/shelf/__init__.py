"""`Shelf`: visitors in, offers out, answers in, private releases between; in one process, saved to one file."""

from quietshelf.shelf.errors import AnswerConflict, OfferExpired, OpenBatchDropped, ShelfError, UnknownOffer
from quietshelf.shelf.shelf import Shelf
from quietshelf.shelf.tastes import Tastes

__all__ = [
    "AnswerConflict",
    "OfferExpired",
    "OpenBatchDropped",
    "Shelf",
    "ShelfError",
    "Tastes",
    "UnknownOffer",
]
