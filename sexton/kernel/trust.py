"""Decide whom an outgoing connection trusts: the authorities of certificates, and whether plain HTTP is acceptable."""

import ipaddress
import ssl
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import urlsplit

from sexton.kernel.errors import SextonError
from sexton.kernel.message import Message


class PlainHttp(SextonError):
    """A request would cross a network in clear text."""


class Trust(Message):
    """What all outgoing connections of a process trust. The default is the strictest.

    ``ca_certs``: a file in PEM with the only authorities whose certificates are accepted; empty: the public ones.
    ``insecure_http``: plain HTTP may leave this machine.
    """

    ca_certs: str = ""
    insecure_http: bool = False

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> "Trust":
        """Return the trust of a process that reads no settings, by the variables of the same settings."""
        insecure_http = environment.get("SEXTON_INSECURE_HTTP", "").lower() in ("1", "true")
        return cls(ca_certs=environment.get("SEXTON_CA_CERTS", ""), insecure_http=insecure_http)

    def check(self, url: str) -> None:
        """Raise ``PlainHttp`` for the URL of another machine without TLS, unless the settings permit it."""
        parts = urlsplit(url)
        if parts.scheme == "http" and not self.insecure_http and not is_loopback(parts.hostname or ""):
            raise PlainHttp(
                f"{parts.scheme}://{parts.hostname} is not encrypted: use an https URL, with ca_certs for a private "
                "authority; in a network that you trust: insecure_http = true (SEXTON_INSECURE_HTTP=true)"
            )

    def verify(self) -> ssl.SSLContext | bool:
        """Return the argument ``verify`` of an HTTP client; True: by the public authorities."""
        return ssl.create_default_context(cafile=self.ca_certs) if self.ca_certs else True


STRICT = Trust()


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Return whether a host is this machine for certain: ``localhost``, or an address of its loopback interface."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
