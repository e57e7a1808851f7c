"""The sources that every explanation of a mark reads."""

from typing import TYPE_CHECKING, NamedTuple

from sexton.insight.stores import InsightStores
from sexton.kernel.live import Live
from sexton.owners.port import Owner
from sexton.recycle.planning.model import Policy

if TYPE_CHECKING:
    from sexton.recycle.audit.store import AuditReader


class WhyContext(NamedTuple):
    """Where explanations get their facts, beside the rows of marks and of history."""

    policy: Policy | Live[Policy]
    """The settings in force, which decide whether a mark is due."""
    stores: InsightStores
    """Instances, what operators ordered, plans that wait, and when rounds start."""
    owner: Owner
    """Answers what is live, and which files a mark stands for."""
    audit: "AuditReader"
    """The deletion log: what became of each object, also after SQL has deleted its rows."""
