"""Marks, page by page; and quarantined ones, to be retried or discarded."""

from typing import Annotated

from fastapi import APIRouter, Query

from sexton.insight.marks import STATES, MarkFilter
from sexton.insight.views import MarkPage
from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.kernel.errors import BadInput
from sexton.marks.model import Reason, Ref
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protocol.operating import Discarding, MarkQuery, Retried, RetryOrder
from sexton.recycle.errors import Unconfirmed
from sexton.recycle.pipeline.quarantined import Quarantined

routes = APIRouter(prefix="/v1/instances/{instance}", route_class=GuardedRoute)


@routes.get("/marks")
def marks(instance: str, wanted: Annotated[MarkQuery, Query()], service: Service, caller: CurrentCaller) -> MarkPage:
    """Return marks: waiting ones by kind and in the order in which they become due, then claimed and quarantined ones.

    Quarantined marks have their reason and last error. Marks whose files their owner names have no keys to search.
    """
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    listed = STATES[wanted.state] if wanted.state else None
    parent = _ref(wanted.parent) if wanted.parent else None
    which = MarkFilter(instance, wanted.kind, listed, parent, under=service.places_of(instance, wanted.under))
    if wanted.plan is not None:
        return service.marks_of_plan(wanted.plan, which, wanted.after, wanted.limit)
    return service.marks(which, wanted.after, wanted.limit)


@routes.post("/quarantine/retry")
def retry(instance: str, body: RetryOrder, service: Service, caller: CurrentCaller) -> Retried:
    """Let the next round try marks again. Idempotent."""
    store = service.stores.quarantine
    ref = _ref(body.mark) if body.mark else None
    if body.reason is not None and body.reason not in list(Reason):
        raise BadInput(f"no mark is quarantined for that reason; the reasons: {', '.join(Reason)}")
    subject = body.mark or body.reason or "all"
    with caller.recorded(Deed("quarantine retry", instance, Grant.OPERATE, subject)):
        is_named = not body.everything and body.reason in (None, Reason.CHANGED)
        if is_named and not body.deletes_current and store.list(instance, Reason.CHANGED, ref, limit=1):
            raise Unconfirmed(
                "an object was overwritten after its mark: a retry deletes the object that exists now. If that is "
                "intended, repeat the request with deletes_current"
            )
        but = Reason.CHANGED if body.everything else None
        return Retried(marks=store.retry(instance, ref=ref, reason=body.reason, but=but))


@routes.post("/quarantine/discard")
def discard(instance: str, body: Discarding, service: Service, caller: CurrentCaller) -> Quarantined:
    """Give a mark up that is quarantined or waits for its second pass. Its record is deleted, what is left stays."""
    with caller.recorded(Deed("quarantine discard", instance, Grant.OPERATE, body.mark, body.reason)):
        return service.discard(instance, _ref(body.mark), body.reason)


def _ref(mark: str) -> Ref:
    kind, _, id_ = mark.partition("/")
    return Ref(kind, id_)
