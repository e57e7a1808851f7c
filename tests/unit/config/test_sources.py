"""Secrets in URLs are masked; settings of the database are merged over those of the process, and unsafe ones not."""

import logging
import re
import tomllib
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from config.explain import FOR_ALL, PER_INSTANCE, SHOWN
from config.explain import rows as explained_rows
from config.live import LiveSettings, explain_live, merge, with_value
from config.settings import Settings, explain, load
from config.sources import PACKAGED, SettingsError, masked
from sexton.operators.settings import StoredSetting
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


SPARK_CONF = {
    "spark.executor.memory": "hush",
    "spark.sql.shuffle.partitions": "hush",
    "spark.hadoop.fs.s3a.access.key": "***",
    "spark.sql.catalog.c.s3.access-key-id": "***",
    "spark.authenticate.secret": "***",
    "spark.executorEnv.PGPASS": "***",
    "spark.kubernetes.authenticate.oauthToken": "***",
    "spark.executor.extraJavaOptions": "***",
}
URLS = {
    "sc://h:15002/;use_ssl=true;token=hush": "sc://h:15002/;use_ssl=true;token=***",
    "sc://h:15002/;user_id=ada;x-api-key=hush": "sc://h:15002/;user_id=ada;x-api-key=***",
    "postgresql://u:hush@h/d?sslmode=require": "postgresql://u:***@h/d?sslmode=require",
    "postgresql://h/d?user=u&PassWord=hush": "postgresql://h/d?user=u&PassWord=***",
    "https://ada:hush@s3.example": "https://ada:***@s3.example",
    "s3://bucket/audit": "s3://bucket/audit",
}


def test_spark_settings_are_masked_unless_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sexton.toml"
    file.write_text("".join(["[spark.conf]\n", *(f'"{conf}" = "hush"\n' for conf in SPARK_CONF)]))
    monkeypatch.setenv("SEXTON_CONFIG", str(file))

    values = {row.key: row.value for row in explain()}

    assert {conf: values[f"spark.conf.{conf}"] for conf in SPARK_CONF} == SPARK_CONF


def test_urls_lose_their_secrets() -> None:
    assert {url: masked(url) for url in URLS} == URLS


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


def test_service_links_and_client_variables_are_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load()
    for name, value in {"SEXTON_API_URL": "http://127.0.0.1:8470", "SEXTON_TOKEN": "sxt_x"}.items():
        monkeypatch.setenv(name, value)
    for service, protocol in product(("sexton", "sexton-api", "sexton-worker"), ("TCP", "UDP")):
        with monkeypatch.context() as environment:
            for name, value in service_links(service, protocol).items():
                environment.setenv(name, value)
            assert load() == before
            environment.setenv("SEXTON_API__LISTEN", "127.0.0.1:8471")
            assert load().api.listen == "127.0.0.1:8471"
            environment.setenv("SEXTON_API__LISTN", "127.0.0.1:8471")
            with pytest.raises(SettingsError, match=r"listen"):
                load()


def test_a_setting_that_resembles_a_service_link_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("METRICS_PORT", "API_PORT", "S3__SERVICE_HOST", "API__PORT_80_TCP", "API_PORT_80_TCP_HOST"):
        with monkeypatch.context() as environment:
            environment.setenv(f"SEXTON_{name}", "9464")
            with pytest.raises(SettingsError, match=f"SEXTON_{name}"):
                load()


def test_file_has_exactly_the_settings_with_their_defaults() -> None:
    parsed = tomllib.loads(PACKAGED.read_text())
    assert parsed["temporal"].pop("address") == "127.0.0.1:7233"  # tests have another default
    parsed["temporal"]["address"] = NOWHERE
    fields = {name: field.get_default() for name, field in Settings.model_fields.items() if name != "kinds"}
    defaults = {k: v.model_dump() if isinstance(v, BaseModel) else v for k, v in fields.items()}

    assert {k: v for k, v in parsed.items() if defaults.get(k) != v} == {
        k: v for k, v in defaults.items() if parsed.get(k) != v
    }, "write each setting of config/sections.py into config/sexton.toml, with its default"


RETENTION = "recycle.retention_seconds"


def row(key: str, value: str, instance: str = "") -> StoredSetting:
    return StoredSetting(instance=instance, key=key, value=value, set_at=1_000, set_by="anna")


def test_row_of_an_instance_wins_over_one_of_all() -> None:
    live = live_settings(row(RETENTION, "700", "shop"), row(RETENTION, "800"))

    found = {name: live.current(name).retentions()["prepared"] for name in ("", "shop", "bank")}

    assert found == {"": 800, "shop": 700, "bank": 800}
    assert live.own.retentions()["prepared"] == 259_200


def live_settings(*rows: StoredSetting) -> LiveSettings:
    return LiveSettings(load(), lambda: rows)


UNSAFE_ROWS = [
    (row(RETENTION, "5"), r"retention_seconds = 5 \(database, set by anna\) is below its floor of 600"),
    (row(RETENTION, "soon"), "is not allowed"),
    (row(RETENTION, "5m"), r"retention_seconds = 300 .* is below its floor of 600"),
    (row("wal.trigger_flush_bytes", "2 GB"), "write a whole number of bytes, or 512 MiB"),
    (row("recycle.max_delete_objects", "7d"), "write a whole number, in digits"),
    (row("recycle.max_delete_fraction", "nan"), "finite number"),
    (row("recycle.fallback_retention_seconds", "5"), "use 0 for none, or 600 or more"),
    (row("kinds.snapshot.retention_seconds", "5"), r"kinds\.snapshot\.retention_seconds = 5 .*floor of 600"),
    (row("kinds.orphan.retention_seconds", "700"), "'orphan' is an engine kind"),
    (row("kinds.9.retention_seconds", "700"), "'9' is not a valid kind name"),
    (row("s3.endpoint_url", "https://evil"), "cannot be changed while workers run"),
    (row("wal.flush_secret", "x" * 32), "cannot be changed while workers run"),
    (row("protection.job_max_objects", "1000"), "cannot be changed while workers run"),
    (row("wal.purge_trigger_entries", "1" + "0" * 30), "above its ceiling of 4611686018427387904"),
    (row("wal.purge_trigger_bytes", "1000", "shop"), "the same for all instances"),
    (row("nonsense", "1"), "is not a setting; see: sexton settings show"),
    (row("recycle.retention_second", "1"), r"is not a setting; did you mean recycle\.retention_seconds\?"),
]


def test_unsafe_row_is_ignored() -> None:
    settings = load()
    for unsafe, says in UNSAFE_ROWS:
        merged, ignored = merge(settings, [unsafe], unsafe.instance)

        assert (merged, [entry.row for entry in ignored]) == (settings, [unsafe])
        with pytest.raises(SettingsError, match=says):
            with_value(settings, unsafe.key, unsafe.value, unsafe.instance, "database, set by anna")
    merged, _ = merge(settings, [row(RETENTION, "900000"), row(RETENTION, "1", "shop")], "shop")
    assert merged.recycle.retention_seconds == 900_000


WITH_UNITS = [
    (RETENTION, "2w", 1_209_600, "14d"),
    (RETENTION, "1.5h", 5_400, "90m"),
    (RETENTION, "601 s", 601, "601 s"),
    ("kinds.snapshot.retention_seconds", "10m", 600, "10m"),
    ("wal.trigger_flush_bytes", "1.5 GiB", 3 << 29, "1.5 GiB"),
    ("wal.trigger_flush_bytes", "512MiB", 1 << 29, "512.0 MiB"),
    ("recycle.max_delete_objects", "600", 600, "600"),
]


def test_lengths_and_sizes_are_written_with_units() -> None:
    for key, text, number, amount in WITH_UNITS:
        changed = explained_rows(with_value(load(), key, text))

        assert [(r.value, r.amount) for r in changed if r.key == key] == [(str(number), amount)]


def test_ignored_row_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    live = LiveSettings(load(), lambda: [row(RETENTION, "5")], max_age_seconds=0)

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            live.current()

    assert [r.message for r in caplog.records if "is ignored" in r.message] == [caplog.records[0].message]
    assert [entry.row.key for entry in live.ignored()] == [RETENTION]


def test_changed_rows_are_read_again() -> None:
    rows: list[StoredSetting] = []
    live = LiveSettings(load(), lambda: tuple(rows), max_age_seconds=0)
    rarely = LiveSettings(load(), lambda: tuple(rows), max_age_seconds=3_600)
    policy = live.current.map(Settings.policy)
    before, _ = policy("shop"), rarely.current()
    assert policy("shop") is before

    rows.append(row(RETENTION, "700"))

    assert policy("shop").retention_seconds["prepared"] == 700
    assert policy("shop").version != before.version
    assert rarely.current().recycle.retention_seconds == 259_200


def test_any_number_of_names_costs_no_memory() -> None:
    live = live_settings(row(RETENTION, "700", "shop"))
    policy = live.current.map(Settings.policy)

    assert len({id(live.current(f"forged-{n}")) for n in range(2_000)}) == 1
    assert [policy(f"forged-{n}").retention("prepared") for n in range(2_000)] == [259_200] * 2_000
    assert policy("shop").retention("prepared") == 700


def test_unread_rows_are_an_error_not_the_file() -> None:
    def fail() -> Sequence[StoredSetting]:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        LiveSettings(load(), fail).current()


def test_an_instance_has_kinds_and_an_interval_of_its_own() -> None:
    intervals = [row("recycle.recycle_interval_seconds", "30", "shop"), row("wal.auto_purge_interval_seconds", "20")]
    live = live_settings(*intervals, row("kinds.snapshot.retention_seconds", "7000", "shop"))

    assert live.current("shop").policy().retention_seconds["snapshot"] == 7_000
    assert "snapshot" not in live.current("bank").policy().retention_seconds
    assert live.current("bank").recycle.recycle_interval_seconds == 3_600
    assert live.shortest_interval() == 20
    assert live_settings(intervals[0]).shortest_interval() == 30
    assert live_settings().shortest_interval() == 313  # between two binlog GCs


def test_sources_name_the_database_and_what_it_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_RECYCLE__RETENTION_SECONDS", "1001")
    live = live_settings(row(RETENTION, "700"), row("recycle.upload_grace_seconds", "5"))

    shown = {r.key: r for r in explain_live(live, now=7_201_000)}

    assert (shown[RETENTION].value, shown[RETENTION].source) == ("700", "database, set by anna 2 h ago")
    assert shown[RETENTION].overrides == "1001 (environment SEXTON_RECYCLE__RETENTION_SECONDS)"
    assert shown["recycle.upload_grace_seconds"].source == "config/sexton.toml"
    assert (shown[RETENTION].mutable, shown["deployment"].mutable) == (True, False)


def test_listed_settings_exist_and_mutable_ones_are_bounded() -> None:
    rows, mutable = {r.key: r for r in explain()}, PER_INSTANCE | FOR_ALL

    assert (SHOWN | mutable) - rows.keys() == set()
    unbounded = [key for key in mutable if not re.search("floor|more than", rows[key].bound)]
    assert unbounded == [], "give each a floor (ge= or gt=) in config/sections.py"
