"""`Shelf`: visitors in, offers out, answers in, private releases between; in one process, saved to one file."""

from quietshelf.serving.shelf.errors import AnswerConflict, OfferExpired, OpenBatchDropped, ShelfError, UnknownOffer
from quietshelf.serving.shelf.shelf import Shelf
from quietshelf.serving.shelf.tastes import Tastes

__all__ = [
    "AnswerConflict",
    "OfferExpired",
    "OpenBatchDropped",
    "Shelf",
    "ShelfError",
    "Tastes",
    "UnknownOffer",
]
