"""The API decides before it listens whether an address needs TLS."""

import pytest

from config.sections import ApiSection
from sexton.interfaces.api.serve import InsecureListener, check_security


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    check_security(host, ApiSection())


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.7", "sexton.example", "localhost.example", "::ffff:10.0.0.7"]
)
def test_plain_http_beyond_loopback_is_refused(host: str) -> None:
    with pytest.raises(InsecureListener, match="in clear text"):
        check_security(host, ApiSection())
