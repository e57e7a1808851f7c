"""Topics of the write-ahead log: how far each is purged, and which region holds it back."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from sexton.interfaces.api.pools import reserved
from sexton.interfaces.api.routes import wal as api
from sexton.interfaces.console import session
from sexton.interfaces.console.guarded_page import GuardedPage
from sexton.interfaces.console.visit import CurrentVisit
from sexton.kernel.errors import BadInput
from sexton.protocol.topics import TOPIC, PurgeSignal, Purging

routes = APIRouter(prefix=f"{session.PATH}/topics", route_class=GuardedPage)
MAX_TOPIC, SHOWN = 249, 1_000
Topic = Annotated[str, Path(pattern=TOPIC)]
SIGNALS: dict[PurgeSignal, str] = {
    "now": "The purge stops waiting for flushes.",
    "pause": "The purge pauses before its next step.",
    "resume": "The purge continues.",
    "retry": "The purge tries again now.",
    "cancel": "The purge ends before its next step.",
}


@routes.get("")
def topics(visit: CurrentVisit, after: str = "") -> Response:
    """Show the topics of an instance."""
    listed = api.topics(visit.service, visit.caller, visit.instance, after[:MAX_TOPIC]).topics
    cli, following = f"sexton wal list {visit.instance}", listed[-1].name if len(listed) >= SHOWN else ""
    return visit.show("topics.html", "topics", cli=cli, instance=visit.instance, topics=listed, following=following)


@routes.get("/{topic}")
def show(visit: CurrentVisit, topic: Topic) -> Response:
    """Show how far a topic is purged, and which regions block the rest, the one that needs most first."""
    seen = api.standing(topic, visit.service, visit.caller)
    purges = visit.service.stores.wal.store.purges(topic)
    cli, instance = f"sexton wal explain {topic}", seen.topic.instance
    return visit.show("topic.html", "topics", cli=cli, instance=instance, seen=seen, purges=purges)


@routes.post("/{topic}/purge")
def purge(visit: CurrentVisit, topic: Topic) -> Response:
    """Start a purge now."""
    api.purge(topic, visit.request, visit.service, visit.caller)
    return visit.done(f"A purge of {topic} was started.", f"topics/{topic}")


@routes.post("/{topic}/enable")
def enable(visit: CurrentVisit, topic: Topic) -> Response:
    """Allow purges."""
    order = visit.read(Purging, logical=bool(visit.form.get("logical")))
    api.enable(topic, order, visit.service, visit.caller, visit.instance)
    return visit.done(
        f"Topic {topic} is purged from now on{', by its floor alone' * order.logical}.", f"topics/{topic}"
    )


@routes.post("/{topic}/disable")
@reserved
def disable(visit: CurrentVisit, topic: Topic) -> Response:
    """Stop purging."""
    api.disable(topic, visit.service, visit.caller)
    return visit.done(f"Topic {topic} is no longer purged.", f"topics/{topic}")


@routes.post("/{topic}/signal")
def signal(visit: CurrentVisit, topic: Topic) -> Response:
    """Signal the running purge."""
    sent = visit.form.get("signal", "")
    name = next((known for known in SIGNALS if known == sent), None)
    if name is None:
        raise BadInput(f"there is no such signal; one of: {', '.join(SIGNALS)}")
    api.signal(topic, name, visit.request, visit.service, visit.caller)
    return visit.done(SIGNALS[name], f"topics/{topic}")
