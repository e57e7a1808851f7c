"""Tell addresses of this machine from those of a network."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine for certain: ``localhost``, or an address of its loopback interface."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
