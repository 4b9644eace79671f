"""The raw Kaggle file "Expedia Personalized Sort" -> searches of one destination.

``encode(clean(read(path)))`` is the paper's preparation; ``encode_publicly(read(path, destination=...))`` is the one
that a private fit may use.
"""

from quietshelf.data.logs.expedia.cleaning import Clean, clean
from quietshelf.data.logs.expedia.encoding import encode
from quietshelf.data.logs.expedia.public import encode_publicly
from quietshelf.data.logs.expedia.reading import Raw, read
from quietshelf.data.logs.expedia.sample import write_sample

__all__ = ["Clean", "Raw", "clean", "encode", "encode_publicly", "read", "write_sample"]
