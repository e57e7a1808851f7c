"""Who calls: what the token allows, and the record of calls that change or delete something."""

from contextlib import AbstractContextManager
from typing import Annotated

from fastapi import Depends, Query, Request

from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access import policy
from sexton.operators.access.model import CallRecord, Grant, Token
from sexton.operators.call_log.store import CallStore


class Caller:
    """Whoever sent a request."""

    def __init__(self, token: Token, source: str) -> None:
        self.token, self.source = token, source

    def recorded(
        self,
        at: OperatorService,
        action: str,
        instance: str = "",
        subject: str = "",
        reason: str = "",
        *,
        keeps: bool = False,
    ) -> AbstractContextManager[None]:
        """Write a call down before it is done, and how it ended; also one that the token does not allow.

        ``keeps``: see ``CallStore.recorded``.
        """
        call = CallRecord(who=self.token.name, source=self.source, action=action, instance=instance)
        return CallStore(at.db).recorded(call.model_copy(update={"subject": subject, "reason": reason}), keeps=keeps)

    def needs(self, grant: Grant, job: str | None = None, node: str | None = None) -> None:
        """Raise ``Forbidden`` unless the token allows it; see ``access.policy.check``."""
        policy.check(self.token.scope, grant, job, node)

    @property
    def node(self) -> str:
        """The node whose token it is; empty: another's."""
        return self.token.scope.of if self.token.scope.grant is Grant.NODE else ""


def caller(request: Request) -> Caller:
    """Return who sent the request; the door has looked at the token."""
    return Caller(request.state.token, request.client.host if request.client else "unknown")


def desk(request: Request) -> OperatorService:
    """Return what the application works with."""
    found: OperatorService = request.app.state.desk
    return found


Asker = Annotated[Caller, Depends(caller)]
AtDesk = Annotated[OperatorService, Depends(desk)]


def one(at: AtDesk, instance: Annotated[str | None, Query(max_length=63)] = None) -> str:
    """Return the instance that is named, or the only one there is."""
    return at.registry.one(instance or None)


Instance = Annotated[str, Depends(one)]


def reads(asker: Asker) -> Caller:
    """Let in who may ask."""
    asker.needs(Grant.READ)
    return asker


Reader = Annotated[Caller, Depends(reads)]
