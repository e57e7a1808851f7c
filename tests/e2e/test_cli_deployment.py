"""Without TLS the API and remote S3 need a permission."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Run
from tests.servers.certificate import certificate
from tests.support.rig import Rig

BEYOND = "192.0.2.1:8470"
"""An address for documentation: no machine has it, so nothing listens there whatever the command decides."""


FAR = "http://s3.invalid:9000"


@pytest.mark.usefixtures("shop")
def test_doctor_and_vault_add_name_the_setting(offline: Run) -> None:
    examined = offline("doctor", "--json", SEXTON_S3__ENDPOINT_URL=FAR)
    added = offline("vault", "add", "shop", "far", "--s3", "b/p", SEXTON_S3__ENDPOINT_URL=FAR)
    permitted = {"SEXTON_S3__ENDPOINT_URL": FAR, "SEXTON_INSECURE_HTTP": "true"}
    examined_again = offline("doctor", "--json", **permitted)
    added_again = offline("vault", "add", "shop", "far", "--s3", "b/p", **permitted)

    assert "http://s3.invalid is not encrypted" in examined.stdout
    assert "insecure_http = true" in added.stderr
    assert "is not encrypted" not in examined_again.stdout + added_again.stderr


@pytest.mark.slow
def test_api_sends_clear_text_beyond_loopback_only_if_permitted(offline: Run, shop: Rig, tmp_path: Path) -> None:
    files, warning = certificate(tmp_path), "tokens are sent to 192.0.2.1 in clear text, because api.insecure is set"
    key = {"SEXTON_API__TLS_KEY": str(files.key)}
    in_vain = "cannot listen on 192.0.2.1:8470"
    for flags, variables, sentences in [
        ((), {}, ("would be sent to 192.0.2.1 in clear text", "api.tls_cert", "--insecure")),
        (("--insecure",), {}, (in_vain, warning)),
        ((), {"SEXTON_API__INSECURE": "true"}, (in_vain, warning)),
        ((), key | {"SEXTON_API__TLS_CERT": str(files.cert)}, (in_vain,)),
        ((), key, ("api.tls_key is set and api.tls_cert is not",)),
    ]:
        tried = offline("api", "--listen", BEYOND, *flags, **variables)

        assert tried.returncode == 1
        assert [sentence for sentence in sentences if sentence not in tried.stderr] == []
        assert (in_vain in tried.stderr) == (in_vain in sentences)
