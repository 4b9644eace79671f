"""Tables and statements: transactions that write, snapshots that read, and deletion in pieces."""
