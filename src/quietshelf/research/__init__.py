"""Simulated worlds, the loop over them, audits, fits and studies."""
