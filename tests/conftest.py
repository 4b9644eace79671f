"""Every run of the suite tries the same examples: a failure is a finding, never luck."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("quietshelf", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("quietshelf")
