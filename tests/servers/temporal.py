"""Temporal servers for tests, started from the installed binaries; nothing is downloaded."""

from collections.abc import Sequence

from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from sexton.runtime.embedded.child import find_binary
from sexton.runtime.temporal.client import CONVERTER
from tests.support.eventually import eventually_async

STARTS = 5


async def start_local(extra: Sequence[str] = ()) -> WorkflowEnvironment:
    """Start a dev server in memory with schedules, updates and visibility; its clock is the real one."""
    for attempts_left in reversed(range(STARTS)):
        try:
            return await WorkflowEnvironment.start_local(
                data_converter=CONVERTER,
                ip="127.0.0.1",
                dev_server_existing_path=find_binary("temporal"),
                # 'fatal' fails with a misleading timeout.
                dev_server_log_level="error",
                dev_server_extra_args=extra,
            )
        except RuntimeError as e:
            # The SDK waits 5 s, which a loaded machine of two cores sometimes exceeds.
            if not attempts_left or "did not start within" not in str(e):
                raise
    raise AssertionError("unreachable")


async def schedule_rests(client: Client, id_: str) -> None:
    """Wait until a paused schedule starts nothing any more: what was asked of it before the pause has ended too."""
    await eventually_async(
        "the schedule rests",
        client.get_schedule_handle(id_).describe,
        lambda seen: (
            seen.schedule.state.paused and not (seen.info.running_actions or seen.raw_description.info.buffer_size)
        ),
    )


class DevServer:
    """A dev server for a whole session; `connect()` gives a client in the caller's own event loop."""

    def __init__(self, environment: WorkflowEnvironment) -> None:
        self.environment = environment
        self.address = environment.client.service_client.config.target_host

    async def connect(self) -> Client:
        """Return a client with Sexton's data converter."""
        return await Client.connect(self.address, data_converter=CONVERTER)
