"""A mistake in the settings never gives up encryption, and no message repeats a secret."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError
from temporalio.contrib.pydantic import pydantic_data_converter

from config.sections import TemporalSection
from config.settings import Settings
from sexton.kernel.errors import BadInput, SextonError
from sexton.recycle.planning.model import KindPlan
from sexton.runtime.temporal.client import CONVERTER, connect, connection

ADDRESS = 'address = "temporal.example.org:7233"'


def of_profile(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    file = folder / "temporal.toml"
    file.write_text("\n".join(["[profile.prod]", ADDRESS, *lines]))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    connection(TemporalSection(profile="prod"))


@pytest.mark.parametrize(
    "lines",
    [
        ["[profile.prod.tsl]", "disabled = false"],
        ["[profile.prod.tls]", 'server_ca_cert_pth = "/etc/authority.pem"'],
        ["tls_cert = true"],
    ],
)
def test_a_misspelled_name_in_a_profile_is_refused(
    lines: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"temporal\.profile = prod cannot be used: .* at line [34], column"):
        of_profile(monkeypatch, tmp_path, *lines)


async def test_a_certificate_without_a_key_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_profile(monkeypatch, tmp_path, "[profile.prod.tls]", f'client_cert_data = "{"-" * 5}BEGIN CERTIFICATE{"-" * 5}"')
    settings = Settings(deployment="prod", database_url="postgresql://unused/db", temporal={"profile": "prod"})

    with pytest.raises(SextonError, match="or those of the profile, are no valid certificate and its key"):
        await connect(settings)


@pytest.mark.parametrize(
    "secret",
    [
        ['api_key = "key-0123456789"', "[profile.prod.tls]", "disabled = true"],
        ["[profile.prod.grpc_meta]", 'authorization = "Bearer key-0123456789"'],
    ],
)
def test_a_profile_sends_no_secret_in_clear_text(
    secret: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match=r"temporal\.profile = prod would send a secret without TLS"):
        of_profile(monkeypatch, tmp_path, *secret)


@pytest.mark.parametrize("line", ["api_key = key-0123456789", 'api_key = ["key-0123456789"]', "api_key = 0123456789"])
def test_an_invalid_profile_is_refused_without_its_text(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="line 3, column") as refused:
        of_profile(monkeypatch, tmp_path, line)

    assert "123456789" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("protection", [{"tls": True}, {"tls_ca": "/etc/authority.pem"}, {"api_key": "key-0123456789"}])
def test_a_profile_replaces_no_stated_protection(protection: dict[str, str | bool]) -> None:
    with pytest.raises(ValidationError, match="set in the profile, not beside it"):
        TemporalSection.model_validate({"profile": "prod", **protection})


KIND = KindPlan(kind="dropped", cutoff=5, since=4, marks=1)


def test_payloads_have_the_names_of_the_fields() -> None:
    [payload] = CONVERTER.payload_converter.to_payloads([KIND])

    assert {"cutoff", "since"} <= json.loads(payload.data).keys()
    assert CONVERTER.payload_converter.from_payloads([payload], [KindPlan]) == [KIND]


def test_a_client_with_the_converter_of_the_sdk_is_understood() -> None:
    [payload] = pydantic_data_converter.payload_converter.to_payloads([KIND])

    assert {"cutoff_at", "since_at"} <= json.loads(payload.data).keys()
    assert CONVERTER.payload_converter.from_payloads([payload], [KindPlan]) == [KIND]
