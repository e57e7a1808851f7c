"""Sign the requests that Sexton sends to nodes and to a webhook, with a secret that both know: no other can send them.

The signature covers a moment, the path and the body. It hides nothing: that is TLS's work.
"""

import hashlib
import hmac
import re

SIGNATURE_HEADER = "Sexton-Signature"
MIN_SECRET_CHARACTERS = 32
TOLERATED_SECONDS = 300
"""A signature that is older, or so far ahead, is refused: clocks differ, and a copied request has no effect later."""
_SIGNATURE = re.compile(r"t=([0-9]{1,12}),v1=([0-9a-f]{64})", re.ASCII)


def sign_request(secret: str, path: str, body: bytes, now: float) -> str:
    """Return the value of ``SIGNATURE_HEADER``; ``now``: seconds since 1970."""
    return f"t={int(now)},v1={_digest(secret, int(now), path, body)}"


def is_signed(secret: str, signature: str, path: str, body: bytes, now: float) -> bool:
    """Return whether a request was signed within the last minutes with ``wal.flush_secret``, or ``notices.secret``.

    ``signature``: the header ``Sexton-Signature``; empty: it has none. ``path``, ``body``: as they were received.
    ``now``: seconds since 1970.
    """
    parts = _SIGNATURE.fullmatch(signature)
    if parts is None or len(secret) < MIN_SECRET_CHARACTERS or abs(now - int(parts[1])) > TOLERATED_SECONDS:
        return False
    return hmac.compare_digest(parts[2], _digest(secret, int(parts[1]), path, body))


def _digest(secret: str, moment: int, path: str, body: bytes) -> str:
    return hmac.new(secret.encode(), f"{moment}\n{path}\n".encode() + body, hashlib.sha256).hexdigest()
