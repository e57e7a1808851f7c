"""Verify JWTs of a company's own issuer (OpenID Connect), and map a claim to scopes of Sexton."""

from collections.abc import Mapping
from typing import Any

import jwt

from sexton.operators.access import policy
from sexton.operators.access.model import (
    CallerIdentity,
    Forbidden,
    IssuerAway,
    OidcSettings,
    Unauthenticated,
    scopes_text,
)

ALGORITHMS = {"RSA": "RS256", "EC": "ES256"}
"""Type of a key → the only algorithm for which it is used; the header of a token decides nothing."""
UNREAD = (jwt.PyJWKClientConnectionError, jwt.PyJWKSetError, OSError, ValueError, TypeError, RecursionError)
"""The keys of an issuer cannot be read, or what it answers is no set of keys."""
REQUEST_SECONDS = 5.0
REQUIRED_CLAIMS = ("iss", "aud", "sub", "exp", "iat")
REASONS = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidAudienceError: "it is for another audience",
    jwt.InvalidIssuerError: "it is of another issuer",
    jwt.InvalidSignatureError: "its signature is wrong",
    jwt.MissingRequiredClaimError: f"it needs the claims {', '.join(REQUIRED_CLAIMS)}",
}
"""Error → why a token is not valid, without any part of the token."""
MAX_CHARACTERS = 8_192
MAX_SUBJECT_CHARACTERS = 200
MAX_LIFETIME_SECONDS = 86_400
"""A JWT cannot be revoked here, so one that lasts longer than a day is refused."""
LISTED_CLAIM = "scope"
"""The claim whose text is a list, separated by spaces (RFC 8693); the text of every other claim is one value."""


class OidcVerifier:
    """Verifies the JWTs of one issuer."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings, self._keys = settings, issuer_keys(settings.jwks)
        self._scopes = {value: tuple(map(policy.scope, texts)) for value, texts in settings.scopes.items()}

    def authenticate(self, text: str) -> CallerIdentity:
        """Return the caller that a JWT names, with all scopes to which the values of its claim map.

        Raises:
            Unauthenticated: it is not a valid token of the issuer for this audience.
            Forbidden: no value of its claim maps to a scope.
            IssuerAway: the issuer's keys are not known now.
        """
        key, settings = self._key_of(text), self._settings
        try:
            claims = jwt.decode(
                text,
                key,
                algorithms=[key.algorithm_name],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway_seconds,
                options={"require": list(REQUIRED_CLAIMS)},
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as e:
            reason = next((why for kind, why in REASONS.items() if isinstance(e, kind)), "it is malformed")
            raise Unauthenticated(f"this token is not accepted: {reason}") from e
        subject = _checked_subject(claims)
        value = claims.get(settings.claim)
        values = value if isinstance(value, list) else [value]
        if isinstance(value, str) and settings.claim == LISTED_CLAIM:
            values = value.split()
        mapped = [scope for v in values if isinstance(v, str) for scope in self._scopes.get(v, ())]
        scopes = tuple(dict.fromkeys(mapped))  # each once
        if not scopes:
            raise Forbidden(f"no value of claim {settings.claim} of this token maps to a scope: see [oidc.scopes]")
        return CallerIdentity(f"{subject} of {settings.issuer} ({scopes_text(scopes)})", scopes)

    def _key_of(self, text: str) -> jwt.PyJWK:
        """Return the issuer's key that a token names; only a key of that id and type verifies it."""
        if len(text) > MAX_CHARACTERS:
            raise Unauthenticated(f"this token has more than {MAX_CHARACTERS} characters")
        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            raise Unauthenticated("this token is no JWT") from None
        key_id, algorithm = header.get("kid"), header.get("alg")
        if algorithm not in ALGORITHMS.values():
            raise Unauthenticated(f"tokens must be signed with {' or '.join(ALGORITHMS.values())}")
        if not isinstance(key_id, str):
            raise Unauthenticated("the header of this token names no key (kid)")
        try:
            key = self._keys.get_signing_key(key_id)
        except UNREAD as e:
            raise IssuerAway("the issuer of this token cannot be asked for its keys now; try again") from e
        except jwt.PyJWKClientError as e:
            raise Unauthenticated("the key that signed this token is none of the issuer's") from e
        if key.algorithm_name != algorithm or not _is_usable(key):
            raise Unauthenticated("the key that signed this token is none of the issuer's")
        return key


def issuer_keys(url: str) -> jwt.PyJWKClient:
    """Return the keys of an issuer: read at most every 30 s for unknown ones, and again after five minutes."""
    return jwt.PyJWKClient(url, timeout=REQUEST_SECONDS)


def count_keys(url: str) -> int:
    """Return how many keys of an issuer can verify tokens. Raise ``IssuerAway`` if they cannot be read."""
    try:
        return sum(map(_is_usable, issuer_keys(url).get_signing_keys()))
    except (jwt.PyJWTError, *UNREAD) as e:
        raise IssuerAway(f"the issuer's keys at {url} cannot be read: {e}") from e


def _is_usable(key: jwt.PyJWK) -> bool:
    """Return whether a key can verify tokens: it is of a known type, and long enough."""
    return key.algorithm_name == ALGORITHMS.get(str(key.key_type)) and key.Algorithm.check_key_length(key.key) is None


def is_jwt(text: str) -> bool:
    """Return whether a bearer token has the form of a signed JWT."""
    return text.count(".") == 2


def _checked_subject(claims: Mapping[str, Any]) -> str:
    """Return the subject of a verified token, if it can be stored in the log of calls."""
    try:
        lifetime = int(claims["exp"]) - int(claims["iat"])
    except (TypeError, ValueError, OverflowError):
        raise Unauthenticated("the times of this token are no numbers") from None
    subject = claims["sub"]
    if lifetime > MAX_LIFETIME_SECONDS:
        raise Unauthenticated(f"this token lasts {lifetime:,} s; at most {MAX_LIFETIME_SECONDS:,} s are accepted")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARACTERS or not subject.isprintable():
        raise Unauthenticated(f"the subject of this token is no text of 1 to {MAX_SUBJECT_CHARACTERS} characters")
    return subject
