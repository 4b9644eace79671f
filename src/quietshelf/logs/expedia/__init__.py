"""The raw Kaggle file "Expedia Personalized Sort" -> searches of one destination: read, clean and encode, apart."""

from quietshelf.logs.expedia.cleaning import Clean, clean
from quietshelf.logs.expedia.encoding import encode
from quietshelf.logs.expedia.reading import Raw, read
from quietshelf.logs.expedia.sample import write_sample

__all__ = ["Clean", "Raw", "clean", "encode", "read", "write_sample"]
