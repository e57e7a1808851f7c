"""Connect to Temporal, and count the workers that poll: a round without one waits permanently."""

import asyncio
import os
import sys
import time
import traceback
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from temporalio.api.enums.v1 import TaskQueueType, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.contrib.pydantic import PydanticPayloadConverter, ToJsonOptions
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig
from temporalio.runtime import Runtime
from temporalio.service import RPCError, RPCStatusCode, TLSConfig

from config.sections import TemporalSection
from config.settings import Settings
from sexton.kernel.errors import BadInput, SextonError, missing_extra
from sexton.runtime.temporal import tracing
from sexton.runtime.temporal.log_context import LogContext
from workflows import ids


class PayloadConverter(PydanticPayloadConverter):
    """Writes values by the names of their fields, not with those that users see in JSON.

    A worker of an older version may read them, and knows no newer name. Without options the SDK writes aliases. It
    makes a converter without arguments.
    """

    def __init__(self) -> None:
        super().__init__(ToJsonOptions(exclude_unset=False))


CONVERTER = DataConverter(payload_converter_class=PayloadConverter)


async def connect(settings: Settings, runtime: Runtime | None = None) -> Client:
    """Return a client; raise a ``SextonError`` that says what to do where no server answers or admits it.

    ``runtime``: of the SDK; None: its default one.

    The namespace is looked up, too: without one Temporal answers that no schedule exists and that no round runs, and a
    worker ends with a traceback.
    """
    to = connection(settings.temporal)
    try:
        client = await Client.connect(
            to.address,
            namespace=to.namespace,
            tls=to.tls,
            api_key=to.api_key,
            rpc_metadata=to.headers,
            data_converter=CONVERTER,
            interceptors=[*tracing.interceptors(settings), LogContext()],
            runtime=runtime,
        )
    except (RuntimeError, ValueError) as e:
        raise SextonError(explain_failure(to, str(e))) from e
    request = DescribeNamespaceRequest(namespace=to.namespace)
    try:
        await client.workflow_service.describe_namespace(request, retry=True)
    except RPCError as e:
        fault, way_out = "does not describe", "let this login describe it"
        if e.status is RPCStatusCode.NOT_FOUND:
            fault = "has no"
            way_out = f"create it (temporal operator namespace create --namespace {to.namespace})"
        raise SextonError(
            f"Temporal at {to.address} {fault} namespace {to.namespace} for this program ({e.message}); {way_out}, or "
            "set SEXTON_TEMPORAL__NAMESPACE"
        ) from e
    return client


def run(main: Coroutine[Any, Any, None]) -> NoReturn:
    """Run a program that uses Temporal to its end, print its error if it fails, then exit the process at once.

    It skips the interpreter's own exit, in which Temporal's threads can abort after the work is done (sdk-python #300).
    """
    code = 1
    try:
        asyncio.run(main)
        code = 0
    except SextonError as e:
        sys.stderr.write(f"error: {e}\n")
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as e:  # noqa: BLE001  # printed; the interpreter's own exit must not run
        missing = missing_extra(e) if isinstance(e, ModuleNotFoundError) else ""
        sys.stderr.write(f"error: {missing}\n" if missing else traceback.format_exc())
    tracing.flush()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


INTERRUPTED = 130
"""Exit code of a program that Ctrl-C ended before it handled signals."""
POLL_SECONDS = 70
"""A poller that was seen within this time counts as running; each polls again at least once a minute."""


async def taken(handle: WorkflowHandle[Any, Any]) -> bool:
    """Return whether a worker has taken the workflow: until then its history is its start and a scheduled task."""
    return (await handle.describe()).history_length > 2


class Build(NamedTuple):
    """A build of workers that take only tasks of their own build; both empty: workers without versioning."""

    deployment: str = ""
    build: str = ""


class WorkflowQueue(NamedTuple):
    """The builds of the workers that polled a deployment's workflow queue lately, and the build that gets its tasks.

    ``ramping``: a build that gets some of its workflows instead; None: there is none.
    """

    pollers: tuple[Build, ...]
    current: Build
    ramping: Build | None = None


async def workflow_queue(client: Client, settings: Settings) -> WorkflowQueue:
    """Return who polls this deployment's workflow queue. Temporal lists a worker some moments after its start."""
    try:
        described = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=client.namespace,
                task_queue=TaskQueue(name=ids.control_queue(settings.require_deployment())),
                task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
            )
        )
    except RPCError as e:
        raise SextonError(f"Temporal did not list the workers that poll: {e.message}") from e
    # Temporal remembers pollers for minutes after they have stopped.
    oldest = time.time() - POLL_SECONDS
    reported = [p.deployment_options for p in described.pollers if p.last_access_time.seconds >= oldest]
    versioned = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
    versioning = described.versioning_info
    current, ramping = versioning.current_deployment_version, versioning.ramping_deployment_version
    return WorkflowQueue(
        tuple(
            Build(o.deployment_name, o.build_id) if o.worker_versioning_mode == versioned else Build() for o in reported
        ),
        Build(current.deployment_name, current.build_id),
        Build(ramping.deployment_name, ramping.build_id) if versioning.ramping_version_percentage > 0 else None,
    )


async def pollers(client: Client, settings: Settings) -> int:
    """Return how many workers have polled this deployment's workflow queue recently, of whatever build."""
    return len((await workflow_queue(client, settings)).pollers)


_PAIR_FAULTS = ("PrivateKeyParseError", "CertificateParseError", "KeyMismatch", "Must have both client cert")
"""Words of the SDK about a client certificate and key."""
_DEFAULT_NAMESPACE = "default"


class Connection(NamedTuple):
    """A Temporal service and what it is shown; ``tls`` False: the connection is not encrypted."""

    address: str
    namespace: str
    tls: TLSConfig | bool
    api_key: str | None = None
    headers: Mapping[str, str] = {}


def connection(section: TemporalSection) -> Connection:
    """Return the connection that the settings describe, or the profile of Temporal's own that they name.

    Raises:
        BadInput: a file cannot be read, there is no such profile, or it is invalid or would send a key in clear text.
    """
    if section.profile:
        return _of_profile(section.profile)
    tls: TLSConfig | bool = False
    if section.uses_tls:
        tls = TLSConfig(
            server_root_ca_cert=_pem("tls_ca", section.tls_ca),
            domain=section.server_name or None,
            client_cert=_pem("tls_cert", section.tls_cert),
            client_private_key=_pem("tls_key", section.tls_key),
        )
    return Connection(section.address, section.namespace, tls, section.api_key or None)


def _of_profile(name: str) -> Connection:
    try:
        # Strict: a misspelled name of a setting would be left out, and the connection less secure than the file says.
        config: Mapping[str, Any] = ClientConfig.load_client_connect_config(name, config_file_strict=True)
    except (RuntimeError, OSError, ValueError) as e:
        reason = str(e).partition("\n")[0]  # the other lines quote the file, secrets included
        raise BadInput(
            f"temporal.profile = {name} cannot be used: {reason}; correct the name, or the file of profiles that "
            "TEMPORAL_CONFIG_FILE names (without it: temporal.toml, in the user's configuration)"
        ) from None
    if "target_host" not in config:
        raise BadInput(f"temporal.profile = {name} names no address; add it to Temporal's configuration")
    to = Connection(
        address=config["target_host"],
        namespace=config.get("namespace", _DEFAULT_NAMESPACE),
        tls=config.get("tls", False),
        api_key=config.get("api_key"),
        headers=config.get("rpc_metadata", {}),
    )
    if not to.tls and (to.api_key or "authorization" in {header.lower() for header in to.headers}):
        raise BadInput(f"temporal.profile = {name} would send a secret without TLS; enable tls in the profile")
    return to


def _pem(setting: str, path: str) -> bytes | None:
    if not path:
        return None
    try:
        content = Path(path).read_bytes()
    except OSError as e:
        raise BadInput(f"temporal.{setting} = {path} cannot be read: {e.strerror}") from e
    if b"-----BEGIN " not in content:
        raise BadInput(f"temporal.{setting} = {path} is no file in PEM; convert it")
    return content


def explain_failure(to: Connection, error: str) -> str:
    """Return a sentence that says why no connection was made, and what to do.

    Args:
        to: the connection.
        error: the SDK's message. Its words for the causes were seen with the SDK 1.35.
    """
    where = f"Temporal at {to.address}"
    has_certificate = isinstance(to.tls, TLSConfig) and to.tls.client_cert is not None
    if "Unauthenticated" in error or "PermissionDenied" in error:
        refused = "the API key; set a valid one" if to.api_key else "a client without an API key; set one"
        return f"{where} refuses {refused}: SEXTON_TEMPORAL__API_KEY"
    if "InvalidCertificate" in error:
        return (
            f"the certificate of {where} is not accepted; set temporal.tls_ca to the certificate of its authority, and "
            "temporal.server_name to the name in the certificate"
        )
    if any(cause in error for cause in _PAIR_FAULTS):
        return (
            "temporal.tls_cert and temporal.tls_key, or those of the profile, are no valid certificate and its key; "
            "replace them"
        )
    if "InvalidContentType" in error or "InvalidMessage" in error:
        return f"{where} does not use TLS; remove temporal.tls, tls_ca, tls_cert, tls_key and api_key"
    if "hyper::Error" in error:  # the connection was made, and ended at the first call
        if not to.tls:
            return f"{where} closed the connection, probably because it requires TLS; set temporal.tls"
        refusal = "refuses the client certificate; replace" if has_certificate else "demands a client certificate; set"
        return f"{where} probably {refusal} temporal.tls_cert and temporal.tls_key"
    return f"cannot reach {where}; start it (here: sexton up), or set SEXTON_TEMPORAL__ADDRESS"
