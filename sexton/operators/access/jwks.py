"""Read the public keys of an issuer of JWTs, from a URL or a file, and keep them for a bounded time.

A token with an unknown key makes Sexton read the keys again, at most once in ``MIN_READ_SECONDS``, and one caller at a
time: forged tokens neither load the issuer nor occupy the threads of the API.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import jwt

from sexton.kernel.errors import SextonError
from sexton.operators.access.errors import IssuerAway, Unauthenticated

ALGORITHMS: Mapping[str, str] = {"RSA": "RS256", "EC": "ES256"}
"""Type of a key → the only algorithm for which it is used. The header of a token decides nothing."""
MIN_READ_SECONDS = 30.0
"""Between two attempts to read the keys, whatever tokens arrive."""
REFRESH_SECONDS = 300.0
"""After this time the keys are read again, so that a key that the issuer has withdrawn is no longer accepted."""
REQUEST_SECONDS = 5.0
MAX_BYTES = 1 << 20
MIN_RSA_BITS = 2_048
MAX_KEYS = 100

log = logging.getLogger(__name__)
KeySet = Mapping[tuple[str, str], jwt.PyJWK]
"""(key id, algorithm) → public key."""


class KeysUnread(SextonError):
    """The issuer's keys could not be read now."""


class IssuerKeys:
    """The public keys of one issuer. One object serves all threads of a process."""

    def __init__(self, source: str, max_outage_seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        """``source``: URL or file; ``max_outage_seconds``: how long keys count after they were last read."""
        self._source, self._max_outage, self._clock = source, max_outage_seconds, clock
        self._reading = threading.Lock()
        self._keys: KeySet = {}
        self._read_at: float | None = None
        self._tried_at: float | None = None

    def find(self, key_id: str, algorithm: str) -> jwt.PyJWK:
        """Return a key of the issuer.

        Raises:
            Unauthenticated: the issuer has no such key.
            IssuerAway: the keys were not read yet, or not for too long.
        """
        age = self._age()
        if age is None or age > REFRESH_SECONDS or (key_id, algorithm) not in self._keys:
            self._read()
        key, age = self._keys.get((key_id, algorithm)), self._age()
        if age is None or age > self._max_outage:
            raise IssuerAway("the issuer of this token cannot be asked for its keys now; try again")
        if key is None:
            raise Unauthenticated("the key that signed this token is none of the issuer's")
        return key

    def _age(self) -> float | None:
        return None if self._read_at is None else self._clock() - self._read_at

    def _read(self) -> None:
        """Read the keys, unless that was tried a moment ago or another thread does it; then the known keys stay."""
        if not self._reading.acquire(blocking=False):
            return
        try:
            now = self._clock()
            if self._tried_at is not None and now - self._tried_at < MIN_READ_SECONDS:
                return
            self._tried_at = now
            self._keys, self._read_at = key_set(_document(self._source)), now
        except KeysUnread as e:
            log.warning("the keys of the issuer at %s were not read: %s", self._source, e)
        finally:
            self._reading.release()


def count_keys(source: str) -> int:
    """Return how many keys at a URL or in a file can verify tokens. Raise ``KeysUnread`` if they cannot be read."""
    return len(key_set(_document(source)))


def key_set(document: bytes) -> KeySet:
    """Return the keys of a JSON Web Key Set that can verify tokens; others are left out.

    Raises:
        KeysUnread: it is no key set.
    """
    try:
        entries = json.loads(document)["keys"]
        if not isinstance(entries, list):
            raise TypeError("keys is no list")
    except (ValueError, TypeError, KeyError, RecursionError) as e:
        raise KeysUnread(f"it answers no JSON Web Key Set ({type(e).__name__})") from e
    keys: dict[tuple[str, str], jwt.PyJWK] = {}
    for entry in entries[:MAX_KEYS]:
        if isinstance(entry, dict) and (key := _public_key(entry)) is not None:
            keys.setdefault((str(key.key_id), key.algorithm_name), key)
    if not keys:
        log.warning("the issuer has no key that can verify tokens: they need a kid, and RS256 or ES256")
    return keys


def _public_key(entry: dict[str, Any]) -> jwt.PyJWK | None:
    """Return a key of a set; None if it has no id, is meant for something else, or is too weak."""
    algorithm = ALGORITHMS.get(str(entry.get("kty")))
    if algorithm is None or entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        return None
    if not isinstance(entry.get("kid"), str) or (algorithm == "ES256" and entry.get("crv") != "P-256"):
        return None
    try:
        key = jwt.PyJWK({name: value for name, value in entry.items() if name != "d"}, algorithm=algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
    return None if algorithm == "RS256" and key.key.key_size < MIN_RSA_BITS else key


def _document(source: str) -> bytes:
    if not source.startswith(("http://", "https://")):
        try:
            return Path(source).read_bytes()
        except OSError as e:
            raise KeysUnread(str(e)) from e
    content = bytearray()
    try:
        # A redirect could lead away from the issuer.
        with httpx.stream("GET", source, timeout=REQUEST_SECONDS, follow_redirects=False) as response:
            if response.status_code != 200:
                raise KeysUnread(f"it answers {response.status_code}")
            for part in response.iter_bytes():
                content += part
                if len(content) > MAX_BYTES:
                    raise KeysUnread(f"its answer has more than {MAX_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL) as e:
        raise KeysUnread(str(e) or type(e).__name__) from e
    return bytes(content)
