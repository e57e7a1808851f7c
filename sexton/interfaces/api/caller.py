"""The caller of a request: what its token permits, and the log of calls that change or delete something."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.requests import HTTPConnection

from sexton.interfaces.operator_service import OperatorService
from sexton.kernel.errors import BadInput
from sexton.operations.registry import Deed
from sexton.operators.access import policy
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import (
    EVERY_INSTANCE,
    UNKNOWN_INSTANCE,
    CallerIdentity,
    Grant,
    TokenScope,
    scopes_text,
)
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore


class Caller:
    """The sender of a request, known by its token and address."""

    def __init__(self, identity: CallerIdentity, source: str, calls: CallStore) -> None:
        self._identity, self.source, self._calls = identity, source, calls
        self._forbidden: CallRecord | None = None
        self._is_logged = False

    @property
    def name(self) -> str:
        """The caller in the log of calls."""
        return self._identity.name

    @property
    def scopes(self) -> tuple[TokenScope, ...]:
        """What the caller may do: one scope of a token of Sexton, perhaps several of a JWT."""
        return self._identity.scopes

    @contextmanager
    def recorded(self, deed: Deed, *, keeps: bool = False) -> Iterator[None]:
        """Log a request before it runs, and its outcome afterwards. Raise ``Forbidden`` if the token lacks the grant.

        ``keeps``: see ``CallStore.recorded``.
        """
        with self._calls.recorded(self._permitted(deed), keeps=keeps):
            yield

    @contextmanager
    def routine(self, deed: Deed) -> Iterator[None]:
        """Log a request that programs repeat all the time only if it is refused."""
        with self._calls.routine(self._permitted(deed)):
            yield

    def log_refusal(self, request: str, outcome: str) -> None:
        """Log that a request (``METHOD TEMPLATE``) was refused, unless its deed was logged."""
        if not self._is_logged:
            call = self._forbidden or CallRecord(who=self.name, source=self.source, action=request)
            self._calls.refused(call, outcome)

    def _permitted(self, deed: Deed) -> CallRecord:
        call = CallRecord(who=self.name, source=self.source, action=deed.action, instance=deed.instance)
        call = call.model_copy(update={"subject": deed.subject, "reason": deed.reason})
        self._forbidden = call
        instance = deed.instance if deed.is_named or self.covers(deed.instance) else UNKNOWN_INSTANCE
        self.require(deed.grant, instance or EVERY_INSTANCE, job=deed.job, node=deed.node)
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
    service: OperatorService = request.app.state.service
    request.state.caller = caller = Caller(request.state.identity, source_of(request), service.stores.calls)
    return caller


def source_of(connection: HTTPConnection) -> str:
    """Return the client's address; a trusted proxy may have sent a text that is none."""
    try:
        return str(ip_address(connection.client.host if connection.client else ""))
    except ValueError:
        return "unknown"


async def operator_service(request: Request) -> OperatorService:
    """Return the application's operator service."""
    service: OperatorService = request.app.state.service
    return service


CurrentCaller = Annotated[Caller, Depends(current_caller)]
Service = Annotated[OperatorService, Depends(operator_service)]


def selected_instance(
    service: Service, caller: CurrentCaller, instance: Annotated[str | None, Query(max_length=63)] = None
) -> str:
    """Return the instance of the query, or that of the token, or the deployment's only instance."""
    return resolved(service, caller, instance)


def resolved(service: OperatorService, caller: Caller, instance: str | None) -> str:
    """Return a registered instance: the named one, or that of the token, or the deployment's only instance."""
    name = caller.selected(instance)
    return service.stores.registry.resolve_instance(None if name == EVERY_INSTANCE else name)


def covered_instance(
    service: Service, caller: CurrentCaller, instance: Annotated[str | None, Query(max_length=63)] = None
) -> str:
    """Return the instance of the query, or that of the token; ``EVERY_INSTANCE``: the query is about all instances."""
    name = caller.selected(instance)
    return name if name == EVERY_INSTANCE else service.stores.registry.instance(name).id


SelectedInstance = Annotated[str, Depends(selected_instance)]
CoveredInstance = Annotated[str, Depends(covered_instance)]
