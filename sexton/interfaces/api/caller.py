"""The caller of a request: what its token permits, and the log of calls that change or delete something."""

from contextlib import AbstractContextManager
from ipaddress import ip_address
from typing import Annotated

from fastapi import Depends, Query, Request

from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access import policy
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import EVERY_INSTANCE, Grant, Token
from sexton.operators.call_log.model import CallRecord


class Caller:
    """The sender of a request, known by its token and address."""

    def __init__(self, token: Token, source: str) -> None:
        self.token, self.source = token, source

    def recorded(
        self,
        service: OperatorService,
        action: str,
        instance: str = "",
        subject: str = "",
        reason: str = "",
        *,
        keeps: bool = False,
    ) -> AbstractContextManager[None]:
        """Log a call before it runs, and its outcome afterwards; also a call that the token does not permit.

        ``keeps``: see ``CallStore.recorded``.
        """
        call = CallRecord(who=self.token.name, source=self.source, action=action, instance=instance)
        call = call.model_copy(update={"subject": subject, "reason": reason})
        return service.stores.calls.recorded(call, keeps=keeps)

    def require(self, grant: Grant, instance: str, *, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the token permits it; see ``access.policy.check``."""
        policy.check(self.token.scope, grant, instance, job=job, node=node)

    def selected(self, instance: str | None) -> str:
        """Return the instance that a request names, else that of the token, which may be ``EVERY_INSTANCE``.

        Raises:
            Forbidden: the token does not cover the instance, whether there is such an instance or not.
        """
        name = instance or self.token.scope.instance
        if not policy.covers(self.token.scope, name):
            raise Forbidden(f"a token of scope {self.token.scope} is not for this instance")
        return name

    @property
    def node(self) -> str:
        """The node that the token belongs to; empty: it is no node's token."""
        return self.token.scope.of if self.token.scope.grant is Grant.NODE else ""


async def current_caller(request: Request) -> Caller:
    """Return the sender of the request. The authentication middleware has verified its token."""
    return Caller(request.state.token, source_of(request))


def source_of(request: Request) -> str:
    """Return the client's address; a trusted proxy may have sent a text that is none."""
    try:
        return str(ip_address(request.client.host if request.client else ""))
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
