"""One request of a browser: who sends it, which instance it is about, and how its page is rendered.

Give each request of a browser a place, after its session and the token of its form were verified.

The modules of ``routes`` add their pages to ``pages``.
"""

import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import cached_property, partial
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlencode

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response

from sexton.interfaces.api.authentication import TokenVerifier
from sexton.interfaces.api.caller import Caller, current_caller
from sexton.interfaces.api.guarded_route import SMALL_BYTES, read_body
from sexton.interfaces.api.pools import Pools
from sexton.interfaces.api.problems import OtherChange
from sexton.interfaces.console import rendering, session
from sexton.interfaces.sentences import SENTENCES, Values
from sexton.kernel.errors import BadInput
from sexton.kernel.printable import printable
from sexton.operations.fields import ONE, StartedWork
from sexton.operations.registry import Call, Operation, operations
from sexton.operators.access.model import EVERY_INSTANCE, Grant, Unauthenticated
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt
from sexton.operators.controls.policy import halt_by_instance
from sexton.runtime.deployment import Deployment

NOTICE = "sexton-notice"
"""The cookie with what the last action did; the next page shows it once."""
NOTICE_SECONDS = 30
DRAWN_ROUNDS = 30


class InstanceNotChosen(BadInput):
    """A page of one instance was opened, and all are chosen."""


class Visit:
    """A request of a session, with what every page shows."""

    def __init__(self, request: Request, service: Deployment, caller: Caller) -> None:
        self.request, self.service, self.caller = request, service, caller
        if self.notice is not None and not self._is_poll:
            self._forget_answers()  # read before an action that this page follows: another process may have done it

    @cached_property
    def now(self) -> int:
        """The database's time (ms since 1970)."""
        with self.service.db.read() as c:
            return self.service.db.now(c)

    @cached_property
    def instances(self) -> Sequence[str]:
        """The instances that the caller may see, by name."""
        return [row.id for row in self.service.stores.registry.instances() if self.caller.permits(Grant.READ, row.id)]

    @property
    def named(self) -> str | None:
        """The instance that the form names or, without a form, the address; None: none."""
        fields = self.form if self.request.method == "POST" else self.request.query_params
        return fields.get("instance") or None

    @property
    def chosen(self) -> str | None:
        """The instance of the pages to which links lead; None: all, perhaps on a page of one instance."""
        return None if "all" in self.form or "all" in self.request.query_params else self.named

    @property
    def scope(self) -> str | None:
        """The instance of a page that can show all of them; None: all, where several or none are registered."""
        shows_all = self.named is None and len(self.instances) != 1
        return None if shows_all and self.caller.permits(Grant.READ, EVERY_INSTANCE) else self.instance

    @cached_property
    def instance(self) -> str:
        """The instance that a page is about: the named one, else the only one.

        Raises:
            Forbidden: the caller may not see it.
            UnknownInstance: there is no such instance.
            BadInput: there is none at all, or a form names none of several.
            InstanceNotChosen: a page names none of several.
        """
        if self.named is None and len(self.instances) > 1:
            if self.request.method == "POST":
                raise BadInput("the form names no instance; open the page again, then send it")
            raise InstanceNotChosen("this page is about one instance; choose one of them")
        name = self.named or next(iter(self.instances), "")
        if not name:
            raise BadInput("no instance is registered that you may see; add one: sexton instance add NAME")
        self.caller.require(Grant.READ, name)
        return self.service.stores.registry.instance(name).id

    @property
    def form(self) -> Mapping[str, str]:
        """The fields of the form that was sent; none of a GET."""
        fields: Mapping[str, str] = getattr(self.request.state, "form", {})
        return fields

    def ask(self, name: str, **values: object) -> Any:
        """Run an operation as the caller, with these values and those of the form, and return its result.

        A page is about ``instance``, so this is that of an operation that is about one.
        """
        operation = operations()[name]
        return operation.run(self.call, self.values(operation, **values))

    def sent(self, name: str, page: str, **values: object) -> Response:
        """Run an operation as ``ask`` does, and return a redirect to a page, which will show what was done."""
        operation = operations()[name]
        given = self.values(operation, **values)
        text, warns = outcome_text(name, operation.run(self.call, given), given)
        return self.done(text, page, warns=warns)

    @property
    def call(self) -> Call:
        """The call of an operation by the caller."""
        return Call(self.service, self.caller)

    def values(self, operation: Operation, **values: object) -> dict[str, Any]:
        """Return the values of an operation's order: these, and those of the form.

        Raises:
            BadInput: one of them is wrong.
            WrongUsage: a duration has no unit.
        """
        operation.refuse_bare(self.form)
        if operation.covers == ONE and values.get("instance") is None:
            values["instance"] = self.instance
        given = {name: value for name, value in self.form.items() if name in operation.parameters and value}
        try:
            order = operation.order.model_validate(given | values)
        except ValidationError as e:
            one_line = "must be one line of text, in the form that the page shows"  # instead of the pattern
            wrong = [
                (".".join(map(str, m["loc"])), one_line if m["type"] == "string_pattern_mismatch" else m["msg"])
                for m in e.errors(include_input=False)
            ]
            mistakes = "; ".join(": ".join(filter(None, field_and_text)) for field_and_text in wrong)
            raise BadInput(f"not as it should be: {mistakes}") from None
        return {name: getattr(order, name) for name in operation.parameters}

    @cached_property
    def controls(self) -> Sequence[Control]:
        """What operators ordered, as it was when the page first asked."""
        return self.service.stores.controls.all()

    @cached_property
    def halts(self) -> Mapping[str, Halt]:
        """Why nothing is deleted now, of each halted instance that the caller may see."""
        halt_of = halt_by_instance(self.controls, self.now)
        halts = {name: halt_of(name) for name in self.instances}
        return {name: halt for name, halt in halts.items() if halt is not None}

    @property
    def stops(self) -> Sequence[Control]:
        """What operators stopped, of what the caller may see: instances, and ``*`` for all of them."""
        return [c for c in self.controls if c.kind is ControlKind.STOP and c.name in (ALL, *self.instances)]

    def show(self, template: str, here: str, *, cli: str = "", **values: Any) -> Response:
        """Return a page. ``here``: the entry of the menu; ``cli``: the command with the same answer."""
        only = self.instances[0] if len(self.instances) == 1 else None
        instance: str | None = values.get("instance", self.named or only)
        shared = {
            "visitor": self.caller.name,
            "instances": self.instances,
            "instance": instance,
            "chosen": self.chosen,
            "here": here,
            "cli": cli,
            "now": self.now,
            "ago": partial(rendering.relative, now=self.now),
            "halts": self.halts,
            "stops": self.stops,
            "operable": [name for name in self.instances if self.caller.permits(Grant.OPERATE, name)],
            "may_operate": instance is not None and self.caller.permits(Grant.OPERATE, instance),
            "may_operate_all": self.caller.permits(Grant.OPERATE, EVERY_INSTANCE),
            "may_administer": self.caller.permits(Grant.ADMIN, EVERY_INSTANCE),
            "notice": self.notice,
            "form_token": session.session_of(self.request).form_token,
            "link": self.link,
            "trend": self.trend,
            "prices": self.service.settings.prices,
        }
        answer = rendering.page(self.request, template, shared | values)
        if NOTICE in self.request.cookies and not self._is_poll:
            answer.delete_cookie(NOTICE, path=session.PATH)
        return answer

    def about(self, here: str, cli: str, **values: Any) -> Response:
        """Return the page of an entry of the menu, about ``scope``; ``cli``: the command, without its instance."""
        return self.show(f"{here}.html", here, cli=f"{cli} {self.scope or ''}".rstrip(), instance=self.scope, **values)

    def trend(self) -> Mapping[str, Sequence[rendering.Bar]]:
        """Return charts of the last rounds of ``scope``; none where an instance must be chosen first."""
        try:
            listed = self.ask("round list", instance=self.scope, limit=DRAWN_ROUNDS)
        except BadInput:
            return {}
        return rendering.charts(listed.items)

    def agreed(self, field: str, now: object, otherwise: str) -> None:
        """Raise ``OtherChange`` unless a form agreed to what is there now: another operator may have been faster."""
        if self.form.get(field, "") != str(now):
            raise OtherChange(otherwise)

    def done(self, what: str, page: str, *, warns: bool = False, **query: object) -> Response:
        """Return a redirect to a page, which will show what was done; ``warns``: it may not be what was meant."""
        answer = RedirectResponse(self.link(page, **query), 303, rendering.HEADERS)
        self._forget_answers()
        text = session.sign(session.session_of(self.request), f"! {what}" if warns else what)
        session.set_cookie(self.request, answer, NOTICE, text, NOTICE_SECONDS)
        return answer

    @cached_property
    def notice(self) -> str | None:
        """What the action before this page did; None: it follows none."""
        text = self.request.cookies.get(NOTICE)
        return session.signed(session.session_of(self.request), text) if text else None

    @property
    def _is_poll(self) -> bool:
        return "hx-request" in self.request.headers

    def _forget_answers(self) -> None:
        state = self.request.app.state
        for latest in (state.statuses, state.blockers, state.logs):
            latest.forget()

    def link(self, page: str, **query: object) -> str:
        """Return the address of a page, with the chosen instance unless another is given; this page keeps its own."""
        path = f"{session.PATH}/{page}" if page else session.PATH
        values: dict[str, object] = {"instance": self.chosen} | query
        if self.named and not self.chosen and path == self.request.url.path:
            values = {"instance": self.named, "all": 1} | query
        given = urlencode({name: str(value) for name, value in values.items() if value not in (None, "")})
        return f"{path}?{given}" if given else path


def outcome_text(operation: str, result: Any, values: Values) -> tuple[str, bool]:
    """Return what was done, in the lines of the command, and whether that may not be what was meant."""
    lines = [f"{operation}: done"]
    if isinstance(result, StartedWork):
        of = result.topic or result.instance
        lines = [f"{operation}{f' of {of}' if of else ''} was started"]
    elif operation in SENTENCES:
        lines = list(filter(None, SENTENCES[operation](result, values)))
    texts = [re.sub("^warning: ", "", printable(line), flags=re.IGNORECASE) for line in lines]
    return "\n".join(texts), texts != [printable(line) for line in lines]


def ask_for_one(request: Request, _: Exception) -> Response:
    """Return a page that asks for the instance of the page that was opened; other pages go on showing all."""
    visit = Visit(request, request.app.state.service, request.state.caller)
    return visit.show("choose.html", request.url.path.removeprefix(f"{session.PATH}/"))


async def current_visit(request: Request) -> Visit:
    """Return the visit of a request; the route has authenticated it."""
    return Visit(request, request.app.state.service, request.state.caller)


CurrentVisit = Annotated[Visit, Depends(current_visit)]


MAX_FIELDS = 50
LOGIN = f"{session.PATH}/login"
"""The only path that needs no session."""


class GuardedPage(APIRoute):
    """A page, or an action of a form. A form is read before its request takes a place."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI within the limits."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            pools: Pools = request.app.state.pools
            if self.path != LOGIN:
                verifier: TokenVerifier = request.app.state.verifier
                token = session.session_of(request).token
                if not token:
                    raise Unauthenticated("log in first")
                request.state.identity = await verifier.authenticate(f"Bearer {token}")
                await current_caller(request)
            if request.method == "POST":
                try:
                    request.state.form = await _form(request)
                except ClientDisconnect:
                    return Response(status_code=400)
                session.check_form(request, request.state.form.get(session.FORM_FIELD, ""))
            async with pools.place(self.endpoint):
                return await handle(request)

        return guarded


pages = APIRouter(prefix=session.PATH, route_class=GuardedPage)
TYPED = frozenset(
    {"reason", "note", "token", "days", "seconds", "rate", "objects", "typed", "scope", "value", "name"}
    | {"vault", "instance"}
)
"""Fields whose blanks around a text mean nothing, besides those of every form that sends an operation.

Others name something: `` old/`` is another prefix than ``old/``.
"""


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raise ``BadInput`` or ``BodyTooLarge`` for what no page of the console sends."""
    body = await read_body(request, SMALL_BYTES)
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:  # not UTF-8, or too many
        raise BadInput("this is no form of the console") from None
    if any("\0" in value for _, value in fields):
        raise BadInput("a NUL is part of no name")
    is_typed = f"{session.PATH}/do/" in request.url.path
    return {name: value.strip() if is_typed or name in TYPED else value for name, value in fields}
