"""Settings are strict, name their source, and never show a password."""

import os
import re
from pathlib import Path

import pytest

from config.settings import explain, load
from config.sources import SettingsError, home, load_home_env
from sexton.kernel.trust import Trust
from sexton.recycle.planning.policy import for_owner
from tests.servers.certificate import certificate


def _write_home(text: str) -> None:
    home().mkdir(parents=True)
    (home() / "env").write_text(text)


def _source(key: str) -> str:
    return next(row.source for row in explain() if row.key == key)


def test_environment_wins_over_home_over_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(tmp_path)
        assert _source("recycle.retention_seconds") == "packaged sexton.toml"
    file = tmp_path / "own.toml"
    file.write_text(
        "[recycle]\nretention_seconds = 1001\nupload_grace_seconds = 1002\n[temporal]\nnamespace = 'file'\n"
    )
    monkeypatch.setenv("SEXTON_CONFIG", str(file))
    _write_home("SEXTON_RECYCLE__RETENTION_SECONDS=2001\nSEXTON_RECYCLE__UPLOAD_GRACE_SECONDS=2002\n")
    monkeypatch.setenv("SEXTON_RECYCLE__RETENTION_SECONDS", "3001")

    settings = load()

    assert (settings.recycle.retention_seconds, settings.recycle.upload_grace_seconds) == (3001, 2002)
    assert settings.temporal.namespace == "file"
    assert _source("recycle.retention_seconds") == "environment SEXTON_RECYCLE__RETENTION_SECONDS"
    assert _source("recycle.upload_grace_seconds") == str(home() / "env")
    assert _source("temporal.namespace") == str(file)
    assert _source("s3.endpoint_url") == "default"


def test_a_length_of_time_may_have_a_unit_in_every_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('[recycle]\nretention_seconds = "3d"\n[kinds.snapshot]\nretention_seconds = "2w"\n')
    monkeypatch.setenv("SEXTON_CONFIG", str(file))
    monkeypatch.setenv("SEXTON_RECYCLE__LABEL_KEEP_MAX_SECOND", "12h")
    _write_home("SEXTON_WAL__MAP_STALE_SECONDS=30m\n")

    settings = load(**{"check.check_grace_seconds": "1d"})

    assert settings.retentions()["snapshot"] == 14 * 86_400
    assert (settings.recycle.retention_seconds, settings.recycle.label_keep_max_second) == (259_200, 43_200)
    assert (settings.wal.map_stale_seconds, settings.check.check_grace_seconds) == (1_800, 86_400)
    for key, value in (("recycle.retention_seconds", "3 days"), ("recycle.max_delete_objects", "3d")):
        with pytest.raises(SettingsError, match="write a whole number"):
            load(**{key: value})


NOT_IN_USER = "in the user's name, and nowhere else"
LIVE_USERS = ("{instance}", "{instance}_reader", "{instance}_reader:a{b}c")
UNSAFE = [
    ("SEXTON_RECYCLE__RETENTION_SECONDS", "599", r"recycle\.retention_seconds = 599 .* below its floor of 600"),
    ("SEXTON_RECYCLE__RETENTION_SECONDS", "999999999", r"above its ceiling of 315360000"),
    ("SEXTON_RECYCLE__RETENTION_SECONDS", "three days", r"= three days .*write a whole number of seconds"),
    ("SEXTON_RECYCLE__DROPPED_PARTITION_RETENTION_SECONDS", "600", r"floor of 3600"),
    ("SEXTON_RECYCLE__INSTANCE_RECYCLER_WORKER_POOL_SIZE", "65", r"ceiling of 64"),
    ("SEXTON_RECYCLE__DROPPED_INDEX_RETENTION_SECONDS", "600", r"floor of 3600"),
    ("SEXTON_RECYCLE__LABEL_KEEP_MAX_SECOND", "599", r"floor of 600"),
    ("SEXTON_RECYCLE__MAX_DELETE_FRACTION", "0", r"max_delete_fraction = 0 .*must be more than 0"),
    ("SEXTON_RECYCLE__MAX_DELETE_FRACTION", "1.5", r"ceiling of 1"),
    ("SEXTON_RECYCLE__MAX_DELETE_OBJECTS", "0", r"floor of 1;"),
    ("SEXTON_RECYCLE__RECYCLE_POOL_PARALLELISM", "65", r"ceiling of 64"),
    ("SEXTON_AUDIT__AUDIT_URL", "bucket/audit", r"audit_url = bucket/audit .*use s3://BUCKET/PREFIX"),
    ("SEXTON_PRICES__LIST_PER_1000_REQUESTS", "-1", r"floor of 0"),
    ("SEXTON_PRICES__CURRENCY", "", r"prices\.currency .*write 1 to 8 characters"),
    ("SEXTON_RECYCLE__RETENTION_SECOND", "600", r"is not a setting; did you mean recycle\.retention_seconds\?"),
    ("SEXTON_RECYCLE__RETENTION", "600", r"is not a setting; did you mean recycle\.retention_seconds\?"),
    ("SEXTON_RECYCLE_INTERVAL_SECONDS", "60", r"write SEXTON_RECYCLE__RECYCLE_INTERVAL_SECONDS, with two underscores"),
    ("SEXTON_TEMPORAL_ADDRESS", "h:1", r"write SEXTON_TEMPORAL__ADDRESS, with two underscores"),
    ("SEXTON_TEMPORAL__TLS", "ja", r"write true or false"),
    ("SEXTON_TEMPORAL__TLS_KEY", "k", r"temporal\.tls_key \(environment SEXTON_TEMPORAL__TLS_KEY\) .*set both"),
    ("SEXTON_TEMPORAL__BUILD_ID", "a b", r"build_id = a b .*write at most 128 letters, digits"),
    ("SEXTON_WAL__FLUSH_SECRET", "short", r"flush_secret = \*\*\* .*write 32 to 256 characters"),
    ("SEXTON_NOTICES__URL", "hooks/hunter2", r"notices\.url = \*\*\* .*use http://HOST:PORT or https://HOST"),
    ("SEXTON_NOTICES__SECRET", "short", r"notices\.secret = \*\*\* .*write 32 to 256 characters"),
    ("SEXTON_API__LISTEN", "h", r"write HOST:PORT"),
    ("SEXTON_LOG__FORMAT", "xml", r"write console or json"),
    ("SEXTON_DEPLOYMENT", "Prod", r"deployment = Prod .*3 to 63"),
    ("SEXTON_DATABASE_URL", "mysql://h/d", r"database_url = mysql://h/d .*use postgresql://USER@HOST/NAME"),
    ("SEXTON_DATABASE_URL", "sqlite:///file.db", r"use postgresql://USER@HOST/NAME"),
    ("SEXTON_TEMPORAL__ADDRESS", "http://h:1", r"temporal\.address = http://h:1"),
    ("SEXTON_S3__ENDPOINT_URL", "h:9000", r"use http://HOST:PORT"),
    ("SEXTON_S3", "h", r"s3 = \*\*\* \(environment SEXTON_S3\)"),
    ("SEXTON_KINDS__SNAPSHOT__RETENTION_SECONDS", "5", r"kinds\.snapshot\.retention_seconds = 5 .*floor of 600"),
    ("SEXTON_KINDS__ORPHAN__RETENTION_SECONDS", "700", r"KINDS__ORPHAN.*'orphan' is an engine kind"),
    ("SEXTON_KINDS__9__RETENTION_SECONDS", "700", r"'9' is not a valid kind name"),
    ("SEXTON_S3__SECRET", "hunter2", r"SEXTON_S3__SECRET"),
    ("SEXTON_CONFIG", "nowhere.toml", r"cannot read nowhere\.toml"),
    ("SEXTON_LIVE_DATABASE_URL", "postgresql://reader@db/shop", NOT_IN_USER),
    ("SEXTON_LIVE_DATABASE_URL", "postgresql://{owner}_reader@db/shop", NOT_IN_USER),
    ("SEXTON_LIVE_DATABASE_URL", "postgresql://reader@db/{instance}", NOT_IN_USER),
    ("SEXTON_LIVE_DATABASE_URL", "postgresql://{instance}:{instance}@db/shop", NOT_IN_USER),
]


def test_unsafe_or_unknown_setting_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value, says in UNSAFE:
        with monkeypatch.context() as environment:
            environment.setenv(name, value)
            with pytest.raises(SettingsError, match=says) as refusal:
                load()
        assert "hunter2" not in str(refusal.value)


def test_every_problem_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_RECYCLE__RETENTION_SECONDS", "1")
    monkeypatch.setenv("SEXTON_RECYCLE__UPLOAD_GRACE_SECONDS", "2")

    with pytest.raises(SettingsError, match=r"retention_seconds = 1 .*upload_grace_seconds = 2 "):
        load()


def test_a_wrong_file_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    monkeypatch.setenv("SEXTON_CONFIG", str(file))

    for text in ("retention = 5", "[recycle]\nretention = 5", "[s3\n", "s3 = 5"):
        file.write_text(text)
        with pytest.raises(SettingsError, match=re.escape(str(file))):
            load()


def test_a_password_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in ("postgresql://u:p@:hunter2/x@h:5/d", "postgres://h/d?password=p@:hunter2/x&user=u"):
        monkeypatch.setenv("SEXTON_DATABASE_URL", url)
        shown = next(row.value for row in explain() if row.key == "database_url")
        assert ("***" in shown, "hunter2" in shown) == (True, False)

    monkeypatch.setenv("SEXTON_DATABASE_URL", "bad://u:p@:hunter2/x@h")
    with pytest.raises(SettingsError, match=r"\*\*\*") as refusal:
        explain()
    assert "hunter2" not in str(refusal.value)


def test_every_spelling_of_postgresql_means_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    for scheme, user in zip(("postgres", "postgresql", "postgresql+psycopg"), LIVE_USERS, strict=True):
        monkeypatch.setenv("SEXTON_DATABASE_URL", f"{scheme}://u@h/d")
        monkeypatch.setenv("SEXTON_LIVE_DATABASE_URL", f"{scheme}://{user}@db/shop")
        settings = load()

        assert settings.database_url == "postgresql+psycopg://u@h/d"
        assert settings.live_database_url == f"postgresql+psycopg://{user}@db/shop"


def test_an_owners_kind_has_its_own_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_KINDS__SNAPSHOT__RETENTION_SECONDS", "86400")

    assert load().retentions()["snapshot"] == 86400
    assert _source("kinds.snapshot.retention_seconds") == "environment SEXTON_KINDS__SNAPSHOT__RETENTION_SECONDS"


def test_embedded_keys_are_used_only_with_the_embedded_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _write_home("# by sexton up\nAWS_ACCESS_KEY_ID=embedded\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "developer")
    monkeypatch.setenv("SEXTON_S3__ENDPOINT_URL", "http://elsewhere:1")
    load_home_env()
    with_endpoint = os.environ["AWS_ACCESS_KEY_ID"]
    monkeypatch.delenv("SEXTON_S3__ENDPOINT_URL")
    load_home_env()

    assert (with_endpoint, os.environ["AWS_ACCESS_KEY_ID"]) == ("developer", "embedded")


def test_malformed_line_in_home_is_refused() -> None:
    _write_home("PATH=/bin\n")

    with pytest.raises(SettingsError, match="line 1"):
        load()


def test_command_values_win_over_every_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_RECYCLE__RETENTION_SECONDS", "3001")

    settings = load(**{"recycle.retention_seconds": "4001"})

    assert settings.recycle.retention_seconds == 4001
    assert load().recycle.retention_seconds == 3001
    with pytest.raises(SettingsError, match=r"retention_seconds = 5 \(as given\)"):
        load(**{"recycle.retention_seconds": "5"})


def test_the_policy_has_the_catalogs_kinds_and_the_limits() -> None:
    policy = load(**{"recycle.max_delete_objects": "7", "recycle.dropped_index_retention_seconds": "4000"}).policy()

    assert policy.owners["catalog"].retention_seconds == {
        "table": 4000,
        "index": 4000,
        "partition": 10800,
        "tablet": 0,
        "txn_label": 259200,
    }
    assert policy.retention_seconds == {"prepared": 259_200, "compacted": 1_800, "dropped": 10_800, "orphan": 259_200}
    assert (policy.max_delete_objects, policy.max_delete_fraction) == (7, 0.1)
    assert policy.unlimited == ("compacted", "prepared")
    assert for_owner(policy, "catalog").unlimited == ("compacted", "prepared", "txn_label")


def test_valid_audit_url_is_accepted() -> None:
    for url in ("s3://bucket", "s3://bucket/audit/of/ours", "file:///var/audit", "/var/audit", ""):
        assert load(**{"audit.audit_url": url}).audit.audit_url == url


def test_kafka_secrets_come_from_environment_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sexton.toml"
    file.write_text('[wal.kafka]\n"bootstrap.servers" = "k:9092"\n"socket.timeout.ms" = 500\n"sasl.password" = "old"\n')
    monkeypatch.setenv("SEXTON_CONFIG", str(file))
    monkeypatch.setenv("SEXTON_WAL__KAFKA__SASL_PASSWORD", "hush-hush")

    kafka = load().wal.kafka
    rows = {row.key: row for row in explain()}

    assert kafka == {"bootstrap.servers": "k:9092", "socket.timeout.ms": "500", "sasl.password": "hush-hush"}
    assert rows["wal.kafka.bootstrap.servers"].value == "k:9092"
    assert rows["wal.kafka.sasl.password"].value == "***"
    assert "SASL_PASSWORD" in rows["wal.kafka.sasl.password"].source
    assert "hush-hush" not in str(rows)
    monkeypatch.setenv("SEXTON_WAL__KAFKA__SASL_PASSWRD", "hush-hush")  # misspelt
    assert {row.key: row.value for row in explain()}["wal.kafka.sasl.passwrd"] == "***"


def test_kafka_setting_that_is_not_text_is_refused_unshown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sexton.toml"
    file.write_text('[wal.kafka]\n"sasl.password" = ["hush-hush"]\n')
    monkeypatch.setenv("SEXTON_CONFIG", str(file))

    with pytest.raises(SettingsError, match=r"sasl\.password") as refused:
        load()
    assert "hush-hush" not in str(refused.value)


def test_notices_are_off_and_their_url_and_secret_unshown(monkeypatch: pytest.MonkeyPatch) -> None:
    default = load().notices
    monkeypatch.setenv("SEXTON_NOTICES__URL", "https://hooks.example/hush")
    monkeypatch.setenv("SEXTON_NOTICES__SECRET", "hush" * 10)
    rows = {row.key: row.value for row in explain() if row.key.startswith("notices.")}

    assert (default.url, default.secret) == ("", "")
    assert rows == {"notices.url": "***", "notices.secret": "***"}
    assert "hush" not in repr(load())


def test_outgoing_connections_follow_the_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    monkeypatch.setenv("SEXTON_DEPLOYMENT", "shop-1")
    monkeypatch.setenv("SEXTON_CA_CERTS", str(files.authority))
    monkeypatch.setenv("SEXTON_INSECURE_HTTP", "true")
    engine = load().engine_settings()
    monkeypatch.setenv("SEXTON_CA_CERTS", str(files.key))

    assert engine.trust == Trust(ca_certs=str(files.authority), insecure_http=True)
    assert engine.trust == Trust.of_environment(os.environ | {"SEXTON_CA_CERTS": str(files.authority)})
    with pytest.raises(SettingsError, match="cannot be read as certificates in PEM"):
        load()


def test_the_engine_takes_each_of_its_values_from_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEXTON_DEPLOYMENT", "shop-1")
    engine = load().engine_settings()
    sections = {name: value for name, value in vars(engine).items() if hasattr(value, "model_fields_set")}
    unset = {name: set(type(value).model_fields) - value.model_fields_set for name, value in sections.items()}

    assert {"wal", "check", "binlog", "replica", "protection"} <= set(sections)
    assert {name: fields for name, fields in unset.items() if fields} == {"binlog": {"free_records"}}  # no setting


def test_a_missing_deployment_id_or_database_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    no_id, no_database = (
        r"no deployment id: .*{}.*sexton init",
        r"no database: SEXTON_DATABASE_URL .*{}.*run `sexton up",
    )
    _write_home("")
    with pytest.raises(SettingsError, match=no_id.format("has none")):
        load().require_deployment()
    with pytest.raises(SettingsError, match=no_database.format("has none")):
        load().require_database_url()

    (home() / "env").write_text("SEXTON_DEPLOYMENT=demo-1\nSEXTON_DATABASE_URL=postgresql://embedded/db\n")
    with monkeypatch.context() as environment:
        environment.setenv("SEXTON_DATABASE_URL", "postgresql://h/d")
        with pytest.raises(SettingsError, match=no_id.format("is not read beside")):
            load().require_deployment()
    monkeypatch.setenv("SEXTON_DEPLOYMENT", "prod-1")
    assert load().require_deployment() == "prod-1"
    with pytest.raises(SettingsError, match=no_database.format("is not read beside")):
        load().require_database_url()
