"""Settings and items of shelves, in the database and in memory, and the documents for devices."""
