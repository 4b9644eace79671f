"""A valid request -> a slot and an offer; an answer in time -> a bounded contribution (R1 to R4, R6)."""
