"""`sexton api` listens beyond loopback only with TLS, or when told that clear text is acceptable."""

from pathlib import Path

import pytest

from sexton.database.engine import Database
from tests.e2e.conftest import Run
from tests.servers.certificate import certificate

BEYOND = "192.0.2.1:8470"
"""An address for documentation: no machine has it, so nothing listens there whatever the command decides."""


@pytest.mark.usefixtures("shop")
def test_api_refuses_clear_text_beyond_loopback(offline: Run) -> None:
    refused = offline("api", "--listen", BEYOND)

    assert refused.returncode == 1
    assert "would be sent to 192.0.2.1 in clear text" in refused.stderr
    assert "api.tls_cert" in refused.stderr
    assert "--insecure" in refused.stderr


@pytest.mark.parametrize(("flag", "setting"), [("--insecure", ""), ("", "true")], ids=["flag", "setting"])
def test_insecure_api_warns_of_clear_text(offline: Run, shop: Database, flag: str, setting: str) -> None:
    words = [word for word in ("api", "--listen", BEYOND, flag) if word]

    tried = offline(*words, **({"SEXTON_API__INSECURE": setting} if setting else {}))

    assert "cannot listen on 192.0.2.1:8470" in tried.stderr
    assert "tokens are sent to 192.0.2.1 in clear text, because api.insecure is set" in tried.stderr


def test_api_with_a_certificate_needs_no_flag(offline: Run, shop: Database, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    tls = {"SEXTON_API__TLS_CERT": str(files.cert), "SEXTON_API__TLS_KEY": str(files.key)}

    tried = offline("api", "--listen", BEYOND, **tls)
    keyless = offline("api", "--listen", BEYOND, SEXTON_API__TLS_KEY=str(files.key))

    assert "cannot listen on 192.0.2.1:8470" in tried.stderr
    assert "api.tls_key is set and api.tls_cert is not" in keyless.stderr
