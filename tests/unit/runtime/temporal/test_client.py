"""No setting gives up encryption or shows a secret; records, spans and words say what an activity or a purge does."""

import json
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError
from temporalio.contrib.pydantic import pydantic_data_converter

from config.sections import TemporalSection
from config.settings import Settings, load
from sexton.check.model import CheckProgress, CheckRequest
from sexton.insight.views import RunningWork
from sexton.interfaces.cli.render.results import RENDERERS
from sexton.kernel.errors import BadInput, SextonError
from sexton.kernel.trust import PlainHttp
from sexton.marks.model import Lease
from sexton.operations.control import link_of
from sexton.recycle.planning.model import KindPlan
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder, OpenedRound, OpenRoundOrder, RoundProgress
from sexton.replication.binlog.model import GcProgress
from sexton.runtime.temporal.client import CONVERTER, connect, connection
from sexton.runtime.temporal.log_context import context_of
from sexton.runtime.temporal.tracing import NoTelemetry, interceptors
from sexton.runtime.temporal.works import PURGES, ROUNDS
from sexton.wal.messages import PurgeProgress, PurgeRoundProgress

ADDRESS = 'address = "temporal.example.org:7233"'


def of_profile(monkeypatch: pytest.MonkeyPatch, folder: Path, *lines: str) -> None:
    file = folder / "temporal.toml"
    file.write_text("\n".join(["[profile.prod]", ADDRESS, *lines]))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(file))
    connection(TemporalSection(profile="prod"))


def test_a_misspelled_name_in_a_profile_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for lines in (
        ["[profile.prod.tsl]", "disabled = false"],
        ["[profile.prod.tls]", 'server_ca_cert_pth = "/etc/authority.pem"'],
        ["tls_cert = true"],
    ):
        with pytest.raises(BadInput, match=r"temporal\.profile = prod cannot be used: .* at line [34], column"):
            of_profile(monkeypatch, tmp_path, *lines)


async def test_a_certificate_without_a_key_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_profile(monkeypatch, tmp_path, "[profile.prod.tls]", f'client_cert_data = "{"-" * 5}BEGIN CERTIFICATE{"-" * 5}"')
    settings = Settings(deployment="prod", database_url="postgresql://unused/db", temporal={"profile": "prod"})

    with pytest.raises(SextonError, match="or those of the profile, are no valid certificate and its key"):
        await connect(settings)


def test_a_profile_sends_no_secret_in_clear_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for secret in (
        ['api_key = "key-0123456789"', "[profile.prod.tls]", "disabled = true"],
        ["[profile.prod.grpc_meta]", 'authorization = "Bearer key-0123456789"'],
    ):
        with pytest.raises(BadInput, match=r"temporal\.profile = prod would send a secret without TLS"):
            of_profile(monkeypatch, tmp_path, *secret)


def test_an_invalid_profile_is_refused_without_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for line in ("api_key = key-0123456789", 'api_key = ["key-0123456789"]', "api_key = 0123456789"):
        with pytest.raises(BadInput, match="line 3, column") as refused:
            of_profile(monkeypatch, tmp_path, line)

        assert "123456789" not in str(refused.value)
        assert refused.value.__cause__ is None


def test_a_profile_replaces_no_stated_protection() -> None:
    for protection in ({"tls": True}, {"tls_ca": "/etc/authority.pem"}, {"api_key": "key-0123456789"}):
        with pytest.raises(ValidationError, match="set in the profile, not beside it"):
            TemporalSection.model_validate({"profile": "prod", **protection})


KIND = KindPlan(kind="dropped", cutoff=5, since=4, marks=1)


def test_payloads_have_the_names_of_fields_or_those_of_the_sdk() -> None:
    for converter, names in ((CONVERTER, {"cutoff", "since"}), (pydantic_data_converter, {"cutoff_at", "since_at"})):
        [payload] = converter.payload_converter.to_payloads([KIND])

        assert names <= json.loads(payload.data).keys()
        assert CONVERTER.payload_converter.from_payloads([payload], [KindPlan]) == [KIND]


LEASE = Lease(instance="shop", job="recycle", owner="w", epoch=1)
OPENED = OpenedRound(round=7, lease=LEASE, may_delete=True, policy=policy({"dropped": 3_600}, 600))


CONTEXTS: list[tuple[str, object, dict[str, object]]] = [
    ("close_round", CloseOrder(opened=OPENED, plan=1, outcome="SUCCEEDED"), {"instance": "shop", "round": 7}),
    ("open_round", OpenRoundOrder(instance="shop", plan=None), {"instance": "shop"}),
    ("begin_check", CheckRequest(instance="shop", by="x"), {"instance": "shop"}),
    ("cut_binlogs", "shop", {"instance": "shop"}),
    ("purge_topic", "wal-1", {"topic": "wal-1"}),
    ("due_topics", "wal-1", {}),
    ("nudge", None, {}),
]


def test_context_names_what_the_order_names() -> None:
    for activity, order, context in CONTEXTS:
        assert context_of(activity, [] if order is None else [order]) == context


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    settings = load(**{"telemetry.otlp_endpoint": "http://127.0.0.1:4318", "deployment": "test-t"})

    with pytest.raises(NoTelemetry, match=r"pip install 'sexton\[otel\]'"):
        interceptors(settings)


def test_traces_cross_no_network_in_clear_text() -> None:
    settings = load(**{"telemetry.otlp_endpoint": "http://otel.example:4318", "deployment": "test-t"})

    with pytest.raises(PlainHttp):
        interceptors(settings)


def test_a_round_that_does_something_else_names_its_last_error() -> None:
    for doing in ("PAUSED", "RECYCLING"):
        progress = RoundProgress(instance="shop", doing=doing, error="the disk is full")

        assert ROUNDS.describe(progress, "shop").endswith("; its last error: the disk is full")


def test_a_purge_counts_the_regions_that_it_waits_for() -> None:
    for behind, regions in ((1, "1 region"), (2, "2 regions"), (1_200, "1,200 regions")):
        progress = PurgeProgress(topic="orders", doing="FLUSHING", behind=behind)

        assert PURGES.describe(progress, "orders").startswith(f"it waits for {regions} to flush old entries; ")
        assert PURGES.describe(progress, "orders").endswith("sexton wal now orders")


SETTINGS = Settings(deployment="prod-1", database_url="postgresql://unused/db")


def test_link_names_the_workflow() -> None:
    temporal = SETTINGS.temporal.model_copy(update={"ui_url": "http://127.0.0.1:8233/", "namespace": "gc"})
    linked = SETTINGS.model_copy(update={"temporal": temporal})
    paths = {
        ("round", "7"): "recycle%2Fshop",
        ("check", "3"): "check%2Fshop",
        ("purge", "orders"): "purge-wal%2Forders",
    }
    for (work, name), path in paths.items():
        running = RunningWork(work=work, instance="shop", name=name, since=0, elapsed_ms=0)

        assert link_of(linked, running) == f"http://127.0.0.1:8233/namespaces/gc/workflows/prod-1%2F{path}"
        assert link_of(SETTINGS, running) == ""


def test_a_paused_run_names_the_command_that_resumes_it(capsys: pytest.CaptureFixture[str]) -> None:
    runs = {
        "check resume shop": CheckProgress(instance="shop", doing="PAUSED"),
        "wal resume orders": PurgeProgress(topic="orders", doing="PAUSED"),
        "wal round resume": PurgeRoundProgress(doing="PAUSED"),
        "binlog resume shop": GcProgress(instance="shop", doing="PAUSED"),
    }
    for command, progress in runs.items():
        RENDERERS[f"{command.partition(' resume')[0]} progress"](progress)

        assert capsys.readouterr().out.strip().endswith(f"go on: sexton {command}")
