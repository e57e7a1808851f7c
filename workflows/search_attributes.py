"""The search attributes of every workflow: the Temporal UI and ``temporal workflow list`` filter by them.

A workflow has all of them from its start, or none where the namespace does not know them.
"""

from enum import StrEnum

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

DEPLOYMENT = SearchAttributeKey.for_keyword("SextonDeployment")
INSTANCE = SearchAttributeKey.for_keyword("SextonInstance")
"""Empty for a workflow that serves every instance."""
CAPABILITY = SearchAttributeKey.for_keyword("SextonCapability")
REQUESTED_BY = SearchAttributeKey.for_keyword("SextonRequestedBy")
"""``schedule``, or who asked: an operator's name, or a token's."""
STATE = SearchAttributeKey.for_keyword("SextonState")
"""What the workflow does; at its end, how it ended."""
ALL = (DEPLOYMENT, INSTANCE, CAPABILITY, REQUESTED_BY, STATE)


class Capability(StrEnum):
    """What a workflow is part of."""

    RECYCLE = "recycle"
    CHECK = "check"
    WAL = "wal"
    BINLOG = "binlog"
    SCHEDULE = "schedule"


def at_start(deployment: str, capability: Capability, instance: str, requested_by: str) -> TypedSearchAttributes:
    """Return the attributes with which a workflow starts."""
    values = {DEPLOYMENT: deployment, INSTANCE: instance, CAPABILITY: capability.value, REQUESTED_BY: requested_by}
    return TypedSearchAttributes([SearchAttributePair(key, value) for key, value in values.items()])


def inherited(attributes: TypedSearchAttributes) -> TypedSearchAttributes:
    """Return the attributes for a child of this workflow: those that the workflow has, too.

    The namespace knows these. With any other Temporal would fail the workflow that starts the child, again and again.
    """
    own = workflow.info().typed_search_attributes
    return TypedSearchAttributes([pair for pair in attributes if own.get(pair.key) is not None])


def show_state(state: str) -> None:
    """Set ``SextonState`` of this workflow, if it changes and the workflow was started with attributes."""
    own = workflow.info().typed_search_attributes
    if own.get(CAPABILITY) is not None and own.get(STATE) != state:
        workflow.upsert_search_attributes([STATE.value_set(state)])
