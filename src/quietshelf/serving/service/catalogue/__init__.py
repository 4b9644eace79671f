"""Settings and items of a shelf, in the database and in memory, and what devices are told of them."""
