"""What users and passwords are, what a user may ask for, and how long whoever guesses waits. Pure: ``now`` is given."""

import hashlib
import ipaddress
import re
import unicodedata
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant, TokenScope
from sexton.operators.access.policy import LADDER

MIN_PASSWORD, MAX_PASSWORD = 12, 256
MIN_TTL_SECONDS, TTL_SECONDS, MAX_TTL_SECONDS = 60, 900, 3_600
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")

EVERYBODY = ""
"""The slot of all names that were given from one source, together."""
USER_FAILURES, SOURCE_FAILURES = 5, 20
"""So many logins may fail before somebody waits: of one name, and of all names, from one source."""
WINDOW_MS = 900_000
"""Failures are forgotten when none came for so long after the last wait was over."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 60_000, 900_000
FORGOTTEN_MS = WINDOW_MS + LONGEST_WAIT_MS
"""After so long a row of failures counts for nothing, whatever it says."""
SLOT_DIGITS = 5


class Failures(NamedTuple):
    """How many logins failed, and when the last one did."""

    number: int
    last_at: int


def is_name(text: str) -> bool:
    """Tell whether a user may be called so."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Raise ``BadInput`` of what is no name of a user."""
    if not is_name(name):
        raise BadInput("a user's name has 1 to 64 small letters, digits and . _ @ -, and begins with a letter or digit")


def check_password(name: str, password: str) -> None:
    """Raise ``BadInput`` of a password that is too easy to guess, or no text; it is not repeated."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise BadInput(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    try:
        text = typed(password).decode()
    except UnicodeDecodeError:
        raise BadInput("the password is no UTF-8 text") from None
    if text.casefold() == name.casefold():
        raise BadInput("the password is the user's name: take another")


def typed(password: str) -> bytes:
    """Return the bytes of a password: the same from every keyboard (NFC)."""
    return unicodedata.normalize("NFC", password).encode(errors="surrogatepass")


def granted(own: TokenScope, asked: TokenScope | None) -> TokenScope:
    """Return the scope of a user's token: the one that is asked for, if it is no more than the user's own.

    Raises:
        Forbidden: it is more.
    """
    if asked is None or asked == own:
        return own
    if own.grant in LADDER:
        if asked.grant in LADDER and LADDER.index(asked.grant) <= LADDER.index(own.grant):
            return asked
        if own.grant is Grant.ADMIN or (own.grant is Grant.OPERATE and asked.grant is Grant.SYNC):
            return asked
    raise Forbidden(f"a user of scope {own} may not ask for a token of scope {asked}")


def network(host: str) -> str:
    """Return from where somebody comes, for counting: of IPv6 the /64, as whoever has one address of it has all."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address) >> 64 << 64, 64)))


def slot(name: str) -> str:
    """Return under what the failures of a name are counted: 20 bits of its digest.

    It may be a password in the wrong field: so few bits say nothing about it. Two names of one source that share them,
    one pair in a million, share their count.
    """
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:SLOT_DIGITS]


def failed(before: Failures | None, limit: int, now: int) -> Failures:
    """Return the failures after one more."""
    if before is None or now >= before.last_at + _wait(before.number, limit) + WINDOW_MS:
        return Failures(1, now)
    return Failures(before.number + 1, now)


def waits_ms(failures: Failures | None, limit: int, now: int) -> int:
    """Return for how long the next login has to wait: none, then a minute, doubling up to a quarter of an hour."""
    if failures is None:
        return 0
    return max(0, failures.last_at + _wait(failures.number, limit) - now)


def _wait(number: int, limit: int) -> int:
    doublings = min(number - limit, 10)
    return 0 if doublings < 0 else min(FIRST_WAIT_MS << doublings, LONGEST_WAIT_MS)
