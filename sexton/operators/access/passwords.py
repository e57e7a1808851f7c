"""Hash and verify passwords with argon2id. Only this module imports argon2, when a password is hashed or verified."""

from typing import TYPE_CHECKING

from sexton.operators.access.credentials import typed
from sexton.operators.access.errors import NoArgon2

if TYPE_CHECKING:
    from argon2 import PasswordHasher

TIME_COST, MEMORY_KIB, PARALLELISM = 3, 65_536, 4
"""RFC 9106, section 4, the second recommended option: about 0.1 s and 64 MiB."""
UNKNOWN_USER_HASH = "$argon2id$v=19$m=65536,t=3,p=4$r4DzTa9VjKqZhR+rugRLWg$3pLUZaYwXEDyZiC34G5rBwes3k/EDt2ZEHkHAyp/dwc"
"""Compared with the password of an unknown user, so that it takes as long. The hash of a discarded random text."""


def hash_password(password: str) -> str:
    """Return the hash of a password. Raise ``NoArgon2`` if argon2 is not installed."""
    return _hasher().hash(typed(password))


def matches(stored: str | None, password: str) -> bool:
    """Return whether the password has this hash; for None, return False in the same time. May raise ``NoArgon2``."""
    hasher = _hasher()
    from argon2.exceptions import VerifyMismatchError

    try:
        return hasher.verify(stored or UNKNOWN_USER_HASH, typed(password)) and bool(stored)
    except VerifyMismatchError:
        return False


def _hasher() -> "PasswordHasher":
    try:
        from argon2 import PasswordHasher, Type
    except ImportError as e:
        raise NoArgon2("passwords need argon2; install it: pip install 'sexton[api]'") from e
    return PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM, type=Type.ID)
