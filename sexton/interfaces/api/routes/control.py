"""What is going on, and may it."""

from typing import Annotated

from fastapi import APIRouter, Query

from sexton.insight.views import Overview
from sexton.interfaces.api.caller import Asker, AtDesk, Reader
from sexton.operators.access.model import Grant
from sexton.operators.controls.model import ALL, ControlKind
from sexton.protocol.status import Stop, StopResult, StoriesBody

routes = APIRouter(prefix="/v1")
Key = Annotated[str, Query(min_length=1, max_length=2_048)]
"""A key of 1,024 bytes, and where it is."""


@routes.get("/status")
def status(at: AtDesk, _: Reader) -> Overview:
    """Every instance: what runs, waits, is due, is kept and is set aside."""
    return at.status()


@routes.post("/instances/{instance}/stop")
def stop(instance: str, body: Stop, at: AtDesk, asker: Asker) -> StopResult:
    """Stop deletion of one instance, within 5 s. What is claimed stays claimed. Repeatable."""
    return _stop(instance, body.reason, at, asker)


@routes.post("/stop")
def stop_all(body: Stop, at: AtDesk, asker: Asker) -> StopResult:
    """Stop deletion of every instance, within 5 s. Repeatable."""
    return _stop(ALL, body.reason, at, asker, everything=True)


@routes.post("/instances/{instance}/start")
def start(instance: str, at: AtDesk, asker: Asker) -> StopResult:
    """Take a stop of an instance back; what else keeps it is named. Repeatable."""
    with asker.recorded(at, "start", instance):
        asker.needs(Grant.OPERATE)
        at.registry.instance(instance)
        at.controls.remove(ControlKind.STOP, instance)
        with at.db.read() as c:
            halt = at.controls.halt(c, instance)
    return StopResult(instance=instance, stopped=False, still=str(halt or ""))


@routes.post("/start")
def start_all(at: AtDesk, asker: Asker) -> StopResult:
    """Take the stop of every instance back; stops of single ones stay. Repeatable."""
    with asker.recorded(at, "start", ALL):
        asker.needs(Grant.OPERATE)
        at.controls.remove(ControlKind.STOP, ALL)
    return StopResult(instance=ALL, stopped=False)


@routes.get("/why")
def why(key: Key, at: AtDesk, _: Reader, instance: str | None = None) -> StoriesBody:
    """The story of an object's key or a mark's id: live, marked, due, kept by whom, claimed, gone."""
    if instance is not None:
        at.registry.instance(instance)
    return StoriesBody(stories=tuple(at.stories(key, instance)))


def _stop(name: str, reason: str, at: AtDesk, asker: Asker, *, everything: bool = False) -> StopResult:
    with asker.recorded(at, "stop", name, reason=reason, keeps=True):
        asker.needs(Grant.OPERATE)
        if not everything:
            at.registry.instance(name)
        at.controls.put(ControlKind.STOP, name, reason, by=asker.token.name)
    return StopResult(instance=name, stopped=True)
