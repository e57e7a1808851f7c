"""Rules for users and passwords, for the scopes of logins, and for the wait after failed logins. Pure."""

import hashlib
import ipaddress
import re
import unicodedata
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant, TokenScope
from sexton.operators.access.policy import LADDER, covers

MIN_PASSWORD, MAX_PASSWORD = 12, 256
MIN_TTL_SECONDS, TTL_SECONDS, MAX_TTL_SECONDS = 60, 900, 3_600
_NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,63}")

ALL_NAMES = ""
"""The slot that counts the failures of all names from one source together."""
USER_FAILURES, SOURCE_FAILURES = 5, 20
"""How many logins may fail without a wait: with one name, and with all names, from one source."""
WINDOW_MS = 900_000
"""Failures no longer count if none came within this time after the last wait."""
FIRST_WAIT_MS, LONGEST_WAIT_MS = 60_000, 900_000
FORGOTTEN_MS = WINDOW_MS + LONGEST_WAIT_MS
"""The age at which a row of failures can be deleted, whatever its count."""
SLOT_DIGITS = 5


class Failures(NamedTuple):
    """How many logins failed, and when the last one failed (ms since 1970)."""

    number: int
    last_at: int


def is_name(text: str) -> bool:
    """Return whether the text is acceptable as the name of a user."""
    return _NAME.fullmatch(text) is not None


def check_name(name: str) -> None:
    """Raise ``BadInput`` if the name is not acceptable for a user."""
    if not is_name(name):
        raise BadInput("a user's name has 1 to 64 small letters, digits and . _ @ -, and begins with a letter or digit")


def check_password(name: str, password: str) -> None:
    """Raise ``BadInput`` if the password is easy to guess or not UTF-8 text. The message does not repeat it."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise BadInput(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters")
    try:
        text = typed(password).decode()
    except UnicodeDecodeError:
        raise BadInput("the password is no UTF-8 text") from None
    if text.casefold() == name.casefold():
        raise BadInput("the password is the user's name; choose another")


def typed(password: str) -> bytes:
    """Return the bytes of a password, normalised (NFC) so that they do not depend on the keyboard."""
    return unicodedata.normalize("NFC", password).encode(errors="surrogatepass")


def granted(own: TokenScope, requested: TokenScope | None) -> TokenScope:
    """Return the scope of a user's new token: the requested one, at most the user's own; None: the user's own.

    Only an administrator's login issues tokens of other jobs and nodes.

    Raises:
        Forbidden: the requested scope permits more than the user's own.
    """
    if own.grant is Grant.UNREADABLE:
        raise Forbidden(f"the scope of this user cannot be read; an operator removes and adds the user: {own.of!r}")
    if requested is None or requested == own:
        return own
    if own.grant is Grant.ADMIN:
        return requested
    are_ranked = own.grant in LADDER and requested.grant in LADDER
    if are_ranked and covers(own, requested.instance) and LADDER.index(requested.grant) <= LADDER.index(own.grant):
        return requested
    raise Forbidden(f"a user of scope {own} may not request a token of scope {requested}")


def network(host: str) -> str:
    """Return the source that failures are counted by: for IPv6 the /64, because one client usually has all of it."""
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
    """Return the slot that counts the failures of a name: 20 bits of its digest.

    The name may be a password in the wrong field, and 20 bits reveal nothing about it. Two names of one source that
    have the same slot, one pair in a million, share their count.
    """
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:SLOT_DIGITS]


def failed(before: Failures | None, limit: int, now: int) -> Failures:
    """Return the failures after one more failed login."""
    if before is None or now >= before.last_at + _wait(before.number, limit) + WINDOW_MS:
        return Failures(1, now)
    return Failures(before.number + 1, now)


def waits_ms(failures: Failures | None, limit: int, now: int) -> int:
    """Return the wait in ms before the next login: first none, then a minute, doubled up to 15 minutes."""
    if failures is None:
        return 0
    return max(0, failures.last_at + _wait(failures.number, limit) - now)


def _wait(number: int, limit: int) -> int:
    doublings = min(number - limit, 10)
    return 0 if doublings < 0 else min(FIRST_WAIT_MS << doublings, LONGEST_WAIT_MS)
