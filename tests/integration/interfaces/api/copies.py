"""What the tests of ``client.protect`` share: the object that is copied, and how long its protection lasts."""

from typing import Any

from sexton.protection.model import ProtectionState
from tests.support.rig import Rig

OBJECT = "disk/data/a.dat"
LOST_SECONDS = 2
"""Seconds of a protection that is lost within a test."""
RENEWED_SECONDS = 8
"""Seconds of one that is renewed within a test, also on a busy machine."""


def copying(client: Any, job: str, ttl_seconds: int | None = None, **more: object) -> Any:
    """Return the block of either client in which a job of ada copies the object."""
    return client.protect("shop", job, owner="ada", objects=[OBJECT], ttl_seconds=ttl_seconds, **more)


def state(rig: Rig, job: str = "copy:1") -> ProtectionState | None:
    """Return a protection's state, None where there is none."""
    return {p.job: p.state for p in rig.protections.list_protections("shop")}.get(job)
