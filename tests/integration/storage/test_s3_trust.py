"""Requests to S3 are encrypted, and only by a server whose authority is trusted."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sexton.kernel.trust import Trust
from sexton.storage.model import VaultSpec
from sexton.storage.port import VaultFault
from sexton.storage.vaults import open_vault
from tests.servers.certificate import certificate
from tests.servers.proxy import tls_proxy
from tests.servers.s3 import RunningS3


def _spec(bucket: str) -> VaultSpec:
    return VaultSpec(instance="shop", name="v", kind="s3", location=bucket)


def test_a_private_authority_of_the_settings_is_trusted(s3_server: RunningS3, tmp_path: Path) -> None:
    files, spec = certificate(tmp_path), _spec(s3_server.create_bucket())
    parts = urlsplit(s3_server.endpoint_url)

    with tls_proxy((str(parts.hostname), int(parts.port or 0)), files) as url:
        marker = open_vault(spec, endpoint_url=url, trust=Trust(ca_certs=str(files.authority))).read_marker()
        with pytest.raises(VaultFault, match=r"CERTIFICATE_VERIFY_FAILED.*for a private authority set ca_certs"):
            open_vault(spec, endpoint_url=url).read_marker()

    assert marker is None


def test_a_store_on_this_machine_is_called_without_a_proxy(
    s3_server: RunningS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = _spec(s3_server.create_bucket())
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    assert open_vault(spec, endpoint_url=s3_server.endpoint_url).read_marker() is None


@pytest.mark.parametrize("own", [True, False], ids=["of the row", "of the settings"])
def test_plain_http_to_another_machine_is_a_fault(own: bool) -> None:
    endpoint = "http://s3.invalid:9000"
    spec = _spec("b").model_copy(update={"endpoint": endpoint if own else ""})

    with pytest.raises(VaultFault, match=r"http://s3.invalid is not encrypted.*insecure_http = true") as refused:
        open_vault(spec, endpoint_url="" if own else endpoint).read_marker()
    assert refused.value.reason == "DENIED"


def test_insecure_http_permits_another_machine() -> None:
    trust = Trust(insecure_http=True)

    with pytest.raises(VaultFault) as unreachable:
        open_vault(_spec("b"), endpoint_url="http://s3.invalid:9000", trust=trust).read_marker()
    assert "is not encrypted" not in str(unreachable.value)
