"""Log files -> rounds: read, validate, encode; also the hotel searches of the paper's section 5.2."""
