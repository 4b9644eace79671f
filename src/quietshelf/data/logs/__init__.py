"""Files -> rounds: read, validate, encode; the hotel searches of the paper's section 5.2."""
