"""Passwords as argon2id hashes. The only place that knows argon2; loaded by what makes or looks at a password."""

from typing import TYPE_CHECKING

from sexton.operators.access.credentials import typed
from sexton.operators.access.errors import NoArgon2

if TYPE_CHECKING:
    from argon2 import PasswordHasher

TIME_COST, MEMORY_KIB, PARALLELISM = 3, 65_536, 4
"""RFC 9106, section 4, the second recommended option: about 0.1 s and 64 MiB."""
NOBODY = "$argon2id$v=19$m=65536,t=3,p=4$r4DzTa9VjKqZhR+rugRLWg$3pLUZaYwXEDyZiC34G5rBwes3k/EDt2ZEHkHAyp/dwc"
"""What the password of an unknown user is compared with, so that it takes as long; of a random text nobody kept."""


def hashed(password: str) -> str:
    """Return what is stored of a password. ``NoArgon2``."""
    return _hasher().hash(typed(password))


def matches(stored: str | None, password: str) -> bool:
    """Tell whether it is the password of a stored hash; of none, not, in the same time. ``NoArgon2``."""
    hasher = _hasher()
    from argon2.exceptions import VerifyMismatchError

    try:
        return hasher.verify(stored or NOBODY, typed(password)) and bool(stored)
    except VerifyMismatchError:
        return False


def _hasher() -> "PasswordHasher":
    try:
        from argon2 import PasswordHasher, Type
    except ImportError as e:
        raise NoArgon2("passwords need argon2; install it: pip install 'sexton[api]'") from e
    return PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM, type=Type.ID)
