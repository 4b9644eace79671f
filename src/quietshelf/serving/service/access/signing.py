"""Signs the documents for devices, so that nobody in between, such as a cache, can forge a model.

Slots are not signed: somebody who can alter the reply that names one could name an earlier release of the same edition.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from quietshelf.serving.service.access.tickets import encoded
from quietshelf.serving.service.database.vault import Vault

PURPOSE = "quietshelf device 1\n"
"""Part of every signed text, so that no signature is valid elsewhere."""


def public_key(vault: Vault) -> str:
    """The public half of the signing key: 32 bytes in URL-safe base64."""
    return encoded(_key(vault.signing_seed).public_key().public_bytes_raw())


def envelope(vault: Vault, document: dict[str, Any]) -> bytes:
    """A document as text, with the signature of exactly that text."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    tag = encoded(_key(vault.signing_seed).sign((PURPOSE + text).encode()))
    return json.dumps({"signed": text, "signature": tag}, ensure_ascii=False, separators=(",", ":")).encode()


@cache
def _key(seed: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # not needed by most shelves

    return Ed25519PrivateKey.from_private_bytes(seed)
