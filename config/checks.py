"""Checks of the settings outside any section. Pydantic turns each ``ValueError`` into an error of its setting."""

import re
import ssl

RETENTION_FLOOR = 600
"""The shortest retention of any kind, in seconds."""


def check_database(url: str) -> str:
    """Return a database's URL with its driver; raise ``ValueError`` for any but PostgreSQL. Empty: not set yet."""
    for plain in ("postgresql://", "postgres://"):
        if url.startswith(plain):
            url = "postgresql+psycopg://" + url.removeprefix(plain)
    if url and not re.match(r"postgresql\+psycopg://.", url):
        raise ValueError("use postgresql://USER@HOST/NAME")
    return url


def check_live_database(url: str) -> str:
    """Return the URL with which live views are read; raise ``ValueError`` if it is wrong.

    ``{instance}`` in the user's name stands for the instance whose view is read, so that each has a login of its own.
    """
    url = check_database(url)
    login, _, server = url.partition("://")[2].rpartition("@")
    user, _, password = login.partition(":")
    if url and ("{instance}" not in user or "{" in user.replace("{instance}", "") or "{instance}" in password + server):
        raise ValueError(
            "use {instance} in the user's name, and nowhere else: postgresql://{instance}_reader@HOST/NAME"
        )
    return url


def check_deployment(text: str) -> str:
    """Return a deployment id; raise ``ValueError`` if it is malformed."""
    if text and not re.fullmatch(r"[a-z0-9][a-z0-9-]{2,62}", text):
        raise ValueError(
            "use 3 to 63 of a-z, 0-9 and '-', beginning with a letter or digit; `sexton init` prints a new one"
        )
    return text


def check_ca_certs(path: str) -> str:
    """Return the path of a file in PEM with certificates; raise ``ValueError`` if it has none."""
    if path:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except OSError as e:
            raise ValueError(f"{path} cannot be read as certificates in PEM: {e}") from e
    return path


def check_fallback(seconds: int) -> int:
    """Return the retention of kinds without one of their own: 0, they have none, or at least 600 s."""
    if 0 < seconds < RETENTION_FLOOR:
        raise ValueError(f"use 0 for none, or {RETENTION_FLOOR} or more")
    return seconds
