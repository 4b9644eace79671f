"""How the tables came to be, one step a file; `store.migrate` takes a database from any step to the last."""
