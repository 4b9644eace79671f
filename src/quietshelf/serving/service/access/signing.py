"""What devices are told is signed, so that nobody on the way, such as a cache, can make up a model in its place.

Slots are not: whoever can alter the reply that names one may name an earlier release of the same edition.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from quietshelf.serving.service.access.tickets import encoded
from quietshelf.serving.service.database.vault import Vault

PURPOSE = "quietshelf device 1\n"
"""Signed along, so that no signature serves elsewhere."""


def public_key(vault: Vault) -> str:
    """The public half of the signing key, 32 bytes in base64 for addresses."""
    return encoded(_key(vault.signing_seed).public_key().public_bytes_raw())


def envelope(vault: Vault, document: dict[str, Any]) -> bytes:
    """A document as text, and the signature of just that text."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    tag = encoded(_key(vault.signing_seed).sign((PURPOSE + text).encode()))
    return json.dumps({"signed": text, "signature": tag}, ensure_ascii=False, separators=(",", ":")).encode()


@cache
def _key(seed: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # not needed by most shelves

    return Ed25519PrivateKey.from_private_bytes(seed)
