"""The variables that Kubernetes sets for services named after Sexton are no settings; misspelt settings are refused."""

import pytest

from config.settings import SettingsError, load


def service_links(service: str, protocol: str) -> dict[str, str]:
    """Return the variables that a pod gets for a service of its namespace."""
    prefix, url = service.upper().replace("-", "_"), f"{protocol.lower()}://10.0.0.11:8470"
    return {
        f"{prefix}_SERVICE_HOST": "10.0.0.11",
        f"{prefix}_SERVICE_PORT": "8470",
        f"{prefix}_SERVICE_PORT_HTTP": "8470",
        f"{prefix}_SERVICE_PORT_HTTP_METRICS": "9464",
        f"{prefix}_PORT": url,
        f"{prefix}_PORT_8470_{protocol}": url,
        f"{prefix}_PORT_8470_{protocol}_PROTO": protocol.lower(),
        f"{prefix}_PORT_8470_{protocol}_PORT": "8470",
        f"{prefix}_PORT_8470_{protocol}_ADDR": "10.0.0.11",
    }


@pytest.mark.parametrize("service", ["sexton", "sexton-api", "sexton-worker"])
@pytest.mark.parametrize("protocol", ["TCP", "UDP"])
def test_service_links_of_kubernetes_are_no_settings(
    monkeypatch: pytest.MonkeyPatch, service: str, protocol: str
) -> None:
    before = load()
    for name, value in service_links(service, protocol).items():
        monkeypatch.setenv(name, value)

    assert load() == before
    monkeypatch.setenv("SEXTON_API__LISTEN", "127.0.0.1:8471")
    assert load().api.listen == "127.0.0.1:8471"
    monkeypatch.setenv("SEXTON_API__LISTN", "127.0.0.1:8471")
    with pytest.raises(SettingsError, match=r"listen"):
        load()


@pytest.mark.parametrize(
    "name",
    [
        "SEXTON_METRICS_PORT",
        "SEXTON_API_PORT",
        "SEXTON_S3__SERVICE_HOST",
        "SEXTON_API__PORT_80_TCP",
        "SEXTON_API_PORT_80_TCP_HOST",
    ],
)
def test_a_setting_that_resembles_a_service_link_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "9464")

    with pytest.raises(SettingsError, match=name):
        load()
