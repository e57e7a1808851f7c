"""Without an endpoint no part of OpenTelemetry's SDK is loaded; without the extra the setting names the way out."""

import subprocess
import sys

import pytest

from config.settings import load
from sexton.kernel.trust import PlainHttp
from sexton.runtime.temporal.tracing import NoTelemetry, interceptors


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
