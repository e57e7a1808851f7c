"""Send traces of workflows and activities to an OpenTelemetry collector. Without an endpoint nothing is imported."""

from functools import cache
from typing import TYPE_CHECKING, Any

from temporalio.client import Interceptor

from config.settings import Settings
from sexton.kernel.errors import SextonError
from sexton.kernel.trust import Trust

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

ID_OF_WORKFLOW = "temporalWorkflowID"
"""The attribute in which Temporal's interceptor gives the workflow's id: DEPLOYMENT/CAPABILITY/INSTANCE, or a topic."""
FLUSH_MILLISECONDS = 2_000
_providers: "list[TracerProvider]" = []


class NoTelemetry(SextonError):
    """The settings ask for traces, and OpenTelemetry is not installed."""


def interceptors(settings: Settings) -> list[Interceptor]:
    """Return what traces the calls of a client and the work of its workers; nothing without an endpoint."""
    endpoint = settings.telemetry.otlp_endpoint
    if not endpoint:
        return []
    settings.trust().check(endpoint)
    return [interceptor(provider(endpoint, settings.trust(), settings.require_deployment()))]


def interceptor(spans: "TracerProvider") -> Interceptor:
    """Return the interceptor that makes a provider's spans, also for workflows that a schedule starts."""
    from temporalio.contrib.opentelemetry import TracingInterceptor

    return TracingInterceptor(spans.get_tracer("sexton"), always_create_workflow_spans=True)


@cache
def provider(endpoint: str, trust: Trust, deployment: str) -> "TracerProvider":
    """Return the provider of this process, which sends spans to an endpoint.

    Raises:
        NoTelemetry: OpenTelemetry is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ModuleNotFoundError as e:
        raise NoTelemetry(
            f"telemetry.otlp_endpoint is set, and OpenTelemetry is not installed ({e.name}): "
            "pip install 'sexton[otel]', or clear the setting"
        ) from e
    url = f"{endpoint.rstrip('/')}/v1/traces"
    return provider_of(OTLPSpanExporter(endpoint=url, certificate_file=trust.ca_certs or None), deployment)


def provider_of(exporter: "SpanExporter", deployment: str) -> "TracerProvider":
    """Return a provider whose spans name the deployment, and the instance and round that they are about."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class InstanceNamer(SpanProcessor):
        """Adds the instance, or the topic, to each span of a workflow."""

        def on_start(self, span: "Span", parent_context: Any = None) -> None:  # noqa: ARG002  # the port's name
            parts = str((span.attributes or {}).get(ID_OF_WORKFLOW, "")).split("/", 2)
            if len(parts) == 3:
                span.set_attribute("sexton.topic" if parts[1] == "purge-wal" else "sexton.instance", parts[2])

        def on_end(self, span: "ReadableSpan") -> None:
            pass

    spans = TracerProvider(resource=Resource.create({"service.name": "sexton", "sexton.deployment": deployment}))
    spans.add_span_processor(InstanceNamer())
    spans.add_span_processor(BatchSpanProcessor(exporter))
    _providers.append(spans)
    return spans


def describe_span(**attributes: Any) -> None:
    """Add attributes to the span of the running activity, if spans are recorded."""
    if not _providers:
        return
    from opentelemetry.trace import get_current_span

    get_current_span().set_attributes({f"sexton.{name}": value for name, value in attributes.items()})


def flush() -> None:
    """Send the spans that wait, before a process ends without Python's own exit."""
    for spans in _providers:
        spans.force_flush(FLUSH_MILLISECONDS)
