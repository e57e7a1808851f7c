"""Refuse connections that took too long to make: a request must leave soon after the checks that permit it.

A name may have several addresses, and each silent one costs a connect timeout before the next is tried; looking the
name up and the TLS handshake are not limited at all. A delete that is sent after all this was permitted long ago.
"""

import time
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)
from urllib3.exceptions import ConnectTimeoutError

ADDRESS_SECONDS = 3.0
"""How long one address may take to answer."""
CONNECT_SECONDS = 5.0
"""How long all of it may take: one silent address is passed over, as where IPv6 does not work; two are too many."""


class _InTime:
    """Gives up a connection that took longer than ``CONNECT_SECONDS``; nothing was sent over it yet."""

    def connect(self) -> None:
        began = time.monotonic()
        super().connect()  # type: ignore[misc]
        seconds = time.monotonic() - began
        if seconds > CONNECT_SECONDS:
            self.close()  # type: ignore[attr-defined]
            raise ConnectTimeoutError(self, f"connecting took {seconds:.1f} s, longer than {CONNECT_SECONDS:g} s")


class _Connection(_InTime, AWSHTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_InTime, AWSHTTPSConnection):  # type: ignore[misc]
    pass


class _Pool(AWSHTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(AWSHTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def connect_in_time(client: Any) -> None:
    """Let a client of boto3 send requests only over connections that were made in time.

    botocore has no public place for this; the test fails if the private one moves.
    """
    client._endpoint.http_session._pool_classes_by_scheme.update(http=_Pool, https=_TLSPool)
