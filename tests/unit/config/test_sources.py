"""Secrets in URLs are masked, variables of Kubernetes are no settings, and the file names every setting."""

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from config.explain import SHOWN
from config.explain import rows as explained_rows
from config.settings import SettingRow, Settings, SettingsError, explain, load, masked
from config.sources import PACKAGED
from tests.surroundings import NOWHERE


class Unlisted(BaseModel):
    """Fields that a later version could have."""

    anything: str = "hush-hush"
    names: tuple[str, ...] = ("hush-hush",)
    headers: dict[str, str] = Field(default_factory=lambda: {"x": "hush-hush"})
    seconds: int = 7
    enabled: bool = True
    empty: str = ""


def test_a_text_of_a_new_setting_is_masked_until_it_is_listed() -> None:
    values = {row.key: row.value for row in explained_rows(Unlisted())}

    assert values == {
        "anything": "***",
        "names": "***",
        "headers.x": "***",
        "seconds": "7",
        "enabled": "True",
        "empty": "",
    }


def test_every_listed_setting_exists() -> None:
    assert SHOWN - {row.key for row in explain()} == set()


@pytest.mark.parametrize(
    ("conf", "shown"),
    [
        ("spark.executor.memory", True),
        ("spark.sql.shuffle.partitions", True),
        ("spark.hadoop.fs.s3a.access.key", False),
        ("spark.sql.catalog.c.s3.access-key-id", False),
        ("spark.authenticate.secret", False),
        ("spark.executorEnv.PGPASS", False),
        ("spark.kubernetes.authenticate.oauthToken", False),
        ("spark.executor.extraJavaOptions", False),
    ],
)
def test_spark_settings_are_masked_unless_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str, shown: bool
) -> None:
    file = tmp_path / "sexton.toml"
    file.write_text(f'[spark.conf]\n"{conf}" = "hush-hush"\n')
    monkeypatch.setenv("SEXTON_CONFIG", str(file))

    values = {row.key: row.value for row in explain()}

    assert values[f"spark.conf.{conf}"] == ("hush-hush" if shown else "***")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sc://h:15002/;use_ssl=true;token=hush", "sc://h:15002/;use_ssl=true;token=***"),
        ("sc://h:15002/;user_id=ada;x-api-key=hush", "sc://h:15002/;user_id=ada;x-api-key=***"),
        ("postgresql://u:hush@h/d?sslmode=require", "postgresql://u:***@h/d?sslmode=require"),
        ("postgresql://h/d?user=u&PassWord=hush", "postgresql://h/d?user=u&PassWord=***"),
        ("https://ada:hush@s3.example", "https://ada:***@s3.example"),
        ("s3://bucket/audit", "s3://bucket/audit"),
    ],
)
def test_urls_lose_their_secrets(url: str, shown: str) -> None:
    assert masked(url) == shown


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


def _described() -> list[SettingRow]:
    return [row for row in explain() if not row.key.startswith("kinds.")]


def test_file_has_exactly_the_settings_with_their_defaults() -> None:
    parsed = tomllib.loads(PACKAGED.read_text())
    assert parsed["temporal"].pop("address") == "127.0.0.1:7233"  # tests have another default
    parsed["temporal"]["address"] = NOWHERE
    fields = {name: field.get_default() for name, field in Settings.model_fields.items() if name != "kinds"}
    defaults = {k: v.model_dump() if isinstance(v, BaseModel) else v for k, v in fields.items()}

    assert {k: v for k, v in parsed.items() if defaults.get(k) != v} == {
        k: v for k, v in defaults.items() if parsed.get(k) != v
    }, "write each setting of config/sections.py into config/sexton.toml, with its default"


def test_every_number_names_its_unit_and_its_floor() -> None:
    text = PACKAGED.read_text()

    for row in _described():
        if not row.bound.startswith("floor"):
            continue
        comment = re.search(rf"((?:^#.*\n)+){row.key.rpartition('.')[2]} = ", text, re.MULTILINE)
        assert comment, f"{row.key} has no comment above it"
        floor = re.search(r"floor (\d+)", row.bound)
        assert floor
        assert row.unit in comment[1], f"the comment above {row.key} lacks its unit"
        assert floor[1] in comment[1], f"the comment above {row.key} lacks its floor"


def test_every_key_has_a_line_of_explanation() -> None:
    lines = PACKAGED.read_text().splitlines()

    for number, line in enumerate(lines):
        if re.match(r"[a-z_]+ = ", line):
            assert lines[number - 1].startswith("# "), line
