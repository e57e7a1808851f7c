"""Ask why an object or a mark is as it is, as ``sexton why`` does."""

from sexton.insight.views import Story
from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations
from tests.support.rig import Rig, stores_of


def stories_of(rig: Rig, what: str, instance: str | None = None) -> list[Story]:
    """Return the stories about a key or an id, of one instance or of all."""
    audit = AuditReader(rig.db, AuditLocations(rig.vaults, rig.registry.vaults))
    return story(rig.db, what, instance, WhyContext(rig.policy, stores_of(rig.db).insight, rig.owner, audit))
