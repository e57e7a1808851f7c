"""Log the rounds, plans, checks and purges that workers begin, from whomever the order came."""

import socket

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.operators.call_log.model import DONE, CallRecord
from sexton.operators.call_log.store import append


def record_work(db: Database, c: Connection, action: str, instance: str = "", subject: str = "", by: str = "") -> None:
    """Append a row for work that begins in the caller's transaction, so that neither exists without the other.

    Args:
        db: the database.
        c: the transaction; it should end soon.
        action: what begins.
        instance: empty if it belongs to none.
        subject: the number of the round, the topic.
        by: who requested it, as the order has it. Each party that reaches Temporal can write an order. Empty: the order
            does not say; the search attribute of the workflow does.
    """
    reason = f"requested by {by}, as the order has it" if by else "requested by: see SextonRequestedBy of its workflow"
    call = CallRecord(who="worker", source=f"worker@{socket.gethostname()}", action=action, instance=instance)
    append(db, c, call.model_copy(update={"subject": subject, "outcome": DONE, "reason": reason}))
