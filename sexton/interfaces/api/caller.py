"""The caller of a request: what its token permits, and the log of calls that change or delete something."""

from contextlib import AbstractContextManager
from typing import Annotated

from fastapi import Depends, Query, Request

from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access import policy
from sexton.operators.access.model import Grant, Token
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

    def require(self, grant: Grant, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the token permits it; see ``access.policy.check``."""
        policy.check(self.token.scope, grant, job, node)

    @property
    def node(self) -> str:
        """The node that the token belongs to; empty: it is no node's token."""
        return self.token.scope.of if self.token.scope.grant is Grant.NODE else ""


def current_caller(request: Request) -> Caller:
    """Return the sender of the request. The authentication middleware has verified its token."""
    return Caller(request.state.token, request.client.host if request.client else "unknown")


def operator_service(request: Request) -> OperatorService:
    """Return the application's operator service."""
    service: OperatorService = request.app.state.service
    return service


CurrentCaller = Annotated[Caller, Depends(current_caller)]
Service = Annotated[OperatorService, Depends(operator_service)]


def selected_instance(service: Service, instance: Annotated[str | None, Query(max_length=63)] = None) -> str:
    """Return the instance of the query, or the deployment's only instance."""
    return service.stores.registry.resolve_instance(instance or None)


SelectedInstance = Annotated[str, Depends(selected_instance)]


def reading_caller(caller: CurrentCaller) -> Caller:
    """Return the caller; raise ``Forbidden`` unless its token permits reading everything."""
    caller.require(Grant.READ)
    return caller


ReadingCaller = Annotated[Caller, Depends(reading_caller)]
