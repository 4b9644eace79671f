"""The batch protocol for real visitors: `Shelf` in one process, the service over HTTP."""
