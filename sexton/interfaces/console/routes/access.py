"""Who may use the API and this console, for administrators; and who did what."""

from starlette.responses import Response

from sexton.interfaces.console.visit import CurrentVisit, Visit, pages
from sexton.operations.fields import Before
from sexton.operations.tokens import CreatedToken
from sexton.operators.access.model import EVERY_INSTANCE, Grant

SHOWN = 100


@pages.get("/access")
def access(visit: CurrentVisit) -> Response:
    """Show the tokens."""
    return _page(visit, None)


@pages.post("/access/tokens")
def create(visit: CurrentVisit) -> Response:
    """Create a token and show its secret, once."""
    return _page(visit, visit.ask("token create"))


def _page(visit: Visit, created: CreatedToken | None) -> Response:
    tokens = visit.ask("token list").items
    answer = visit.show("access.html", "access", cli="sexton token list", tokens=tokens, created=created)
    if created is not None:
        answer.headers["Cache-Control"] = "no-store"
    return answer


@pages.get("/log")
def log(visit: CurrentVisit, who: str = "", after: Before = None) -> Response:
    """Show calls, the newest first: about an instance, or all of them if the caller may read all instances."""
    sees_all = visit.named is None and visit.caller.permits(Grant.READ, EVERY_INSTANCE)
    instance = EVERY_INSTANCE if sees_all else visit.instance
    listed = visit.ask("log", instance=None if sees_all else instance, who=who[:200], after=after, limit=SHOWN)
    return visit.show(
        "log.html",
        "log",
        cli="sexton log" if sees_all else f"sexton log --instance {instance}",
        instance=None if sees_all else instance,
        calls=listed.items,
        who=who,
        following=listed.next,
    )
