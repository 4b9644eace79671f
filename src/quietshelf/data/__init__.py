"""A shop's files and tables -> validated features and rounds."""
