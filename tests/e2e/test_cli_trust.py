"""Commands refuse an S3 service on another machine without TLS, and tell which setting permits it."""

import pytest

from tests.e2e.conftest import Run

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
