"""The caller of a request: what its token permits, and the log of calls that change or delete something."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import HTTPConnection

from sexton.kernel.errors import BadInput
from sexton.operations.registry import Deed
from sexton.operators.access import policy
from sexton.operators.access.model import (
    EVERY_INSTANCE,
    UNKNOWN_INSTANCE,
    CallerIdentity,
    Forbidden,
    Grant,
    scopes_text,
)
from sexton.operators.call_log import CallRecord, CallStore
from sexton.runtime.deployment import Deployment


class Caller:
    """The sender of a request, known by its token and address."""

    def __init__(self, identity: CallerIdentity, source: str, calls: CallStore) -> None:
        self.name, self.scopes, self.source, self._calls = identity.name, identity.scopes, source, calls
        """``name``: in the log of calls; ``scopes``: one of a token of Sexton, perhaps several of a JWT."""
        self._forbidden: CallRecord | None = None
        self._is_logged = False

    @contextmanager
    def recorded(self, deed: Deed, *, keeps: bool = False, routine: bool = False) -> Iterator[None]:
        """Log a request before it runs, and its outcome afterwards. Raise ``Forbidden`` if the token lacks the grant.

        ``keeps``: see ``CallStore.recorded``. ``routine``: log it only if it is refused.
        """
        call = self._permitted(deed)
        with self._calls.routine(call) if routine else self._calls.recorded(call, keeps=keeps):
            yield

    def read(self, deed: Deed) -> None:
        """Raise ``Forbidden`` unless the caller may read this; nothing is recorded but the refusal."""
        self._permitted(deed)
        self._is_logged = False

    def log_refusal(self, request: str, outcome: str) -> None:
        """Log that a request (``METHOD TEMPLATE``) was refused, unless its deed was logged."""
        if not self._is_logged:
            call = self._forbidden or CallRecord(who=self.name, source=self.source, action=request)
            self._calls.refused(call, outcome)

    def _permitted(self, deed: Deed) -> CallRecord:
        call = CallRecord(who=self.name, source=self.source, action=deed.action, instance=deed.instance)
        call = call.model_copy(update={"subject": deed.subject, "reason": deed.reason})
        self._forbidden = call
        instance = deed.instance or EVERY_INSTANCE
        if not (deed.is_named or self.covers(deed.instance)):
            if deed.unknown:
                raise Forbidden(f"a token of scope {scopes_text(self.scopes)} is not for {deed.unknown}")
            instance = UNKNOWN_INSTANCE
        self.require(deed.grant, instance, job=deed.job, node=deed.node)
        self._forbidden, self._is_logged = None, True
        return call

    def require(self, grant: Grant, instance: str, *, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the token permits it; see ``access.policy.check``."""
        policy.check(self.scopes, grant, instance, job=job, node=node)

    def permits(self, grant: Grant, instance: str) -> bool:
        """Return whether the token has the grant itself, and not only for its own job or node."""
        return any(policy.permits(scope, grant, instance) for scope in self.scopes)

    def covers(self, instance: str) -> bool:
        """Return whether a scope covers an instance; ``EVERY_INSTANCE``: whether it covers all of them."""
        return any(policy.covers(scope, instance) for scope in self.scopes)

    def require_log(self, grant: Grant, instance: str, consumers: tuple[str, ...]) -> None:
        """Raise ``Forbidden`` if the caller is a job for which no operator registered this log."""
        policy.check_log(self.scopes, grant, instance, consumers)

    def selected(self, instance: str | None) -> str:
        """Return the instance that a request names, else that of the token, which may be ``EVERY_INSTANCE``.

        Raises:
            Forbidden: the token does not cover the instance, whether there is such an instance or not.
            BadInput: the request names none, and the token has scopes of several.
        """
        if instance:
            if not self.covers(instance):
                raise Forbidden(f"a token of scope {scopes_text(self.scopes)} is not for this instance")
            return instance
        own = {scope.instance for scope in self.scopes}
        if EVERY_INSTANCE in own:
            return EVERY_INSTANCE
        if len(own) > 1:
            raise BadInput(f"this token is of several instances; name one: ?instance={min(own)}")
        return own.pop()

    @property
    def node(self) -> str:
        """The node that the token belongs to; empty: it is of none, or of several."""
        nodes = {scope.of for scope in self.scopes if scope.grant is Grant.NODE}
        return nodes.pop() if len(nodes) == 1 else ""


async def current_caller(request: Request) -> Caller:
    """Return the sender of the request. The authentication middleware has verified its token."""
    service: Deployment = request.app.state.service
    request.state.caller = caller = Caller(request.state.identity, source_of(request), service.stores.calls)
    return caller


def source_of(connection: HTTPConnection) -> str:
    """Return the client's address; a trusted proxy may have sent a text that is none."""
    try:
        return str(ip_address(connection.client.host if connection.client else ""))
    except ValueError:
        return "unknown"


async def deployment_of(request: Request) -> Deployment:
    """Return the deployment that the application serves."""
    service: Deployment = request.app.state.service
    return service


CurrentCaller = Annotated[Caller, Depends(current_caller)]
Service = Annotated[Deployment, Depends(deployment_of)]


def selected_instance(
    service: Service, caller: CurrentCaller, instance: Annotated[str | None, Query(max_length=63)] = None
) -> str:
    """Return the instance of the query, or that of the token, or the deployment's only instance."""
    name = caller.selected(instance)
    return service.stores.registry.resolve_instance(None if name == EVERY_INSTANCE else name)


SelectedInstance = Annotated[str, Depends(selected_instance)]
