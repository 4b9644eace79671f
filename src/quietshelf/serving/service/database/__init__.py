"""Tables and statements: one door that writes in transactions, one that reads; what is deleted, in pieces."""
