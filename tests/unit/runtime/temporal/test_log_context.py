"""Records and spans of an activity name what its order is about."""

import subprocess
import sys

import pytest

from config.settings import load
from sexton.check.model import CheckRequest
from sexton.kernel.trust import PlainHttp
from sexton.marks.lease import Lease
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.model import CloseOrder, OpenedRound, OpenRoundOrder
from sexton.runtime.temporal.log_context import context_of
from sexton.runtime.temporal.tracing import NoTelemetry, interceptors

LEASE = Lease(instance="shop", job="recycle", owner="w", epoch=1)
OPENED = OpenedRound(round=7, lease=LEASE, may_delete=True, policy=policy({"dropped": 3_600}, 600))


@pytest.mark.parametrize(
    ("activity", "order", "context"),
    [
        ("close_round", CloseOrder(opened=OPENED, plan=1, outcome="SUCCEEDED"), {"instance": "shop", "round": 7}),
        ("open_round", OpenRoundOrder(instance="shop", plan=None), {"instance": "shop"}),
        ("begin_check", CheckRequest(instance="shop", by="x"), {"instance": "shop"}),
        ("cut_binlogs", "shop", {"instance": "shop"}),
        ("purge_topic", "wal-1", {"topic": "wal-1"}),
        ("due_topics", "wal-1", {}),
        ("nudge", None, {}),
    ],
)
def test_context_names_what_the_order_names(activity: str, order: object, context: dict[str, object]) -> None:
    assert context_of(activity, [] if order is None else [order]) == context


def test_nothing_is_loaded_without_an_endpoint() -> None:
    code = (
        "import sys, sexton.runtime.temporal.client\n"
        "from config.settings import load\n"
        "from sexton.runtime.temporal.tracing import interceptors\n"
        "assert interceptors(load()) == []\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    assert answer.stdout.strip() == "[]"


def test_missing_extra_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    settings = load(**{"telemetry.otlp_endpoint": "http://127.0.0.1:4318", "deployment": "test-t"})

    with pytest.raises(NoTelemetry, match=r"pip install 'sexton\[otel\]'"):
        interceptors(settings)


def test_traces_cross_no_network_in_clear_text() -> None:
    settings = load(**{"telemetry.otlp_endpoint": "http://otel.example:4318", "deployment": "test-t"})

    with pytest.raises(PlainHttp):
        interceptors(settings)
