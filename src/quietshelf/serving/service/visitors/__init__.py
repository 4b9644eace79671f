"""A valid request -> a slot and an offer; a timely answer -> a bounded contribution (R1 to R4, R6).

A visit goes through `inbox` (stamps it), `requests` (checks it), `slots`, and `offers`, which answers repeated requests
and decides; its answer through `inbox` and `answers`, which refuses it once the offer has expired. `remembering` stores
persons and Idempotency-Keys.
"""
