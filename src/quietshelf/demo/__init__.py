"""The product in two minutes: what ``quietshelf demo`` and ``quietshelf serve --demo`` run."""
