"""Ask the front end of an instance which records it has in memory, to compare them with the catalog's."""

from collections.abc import Sequence
from itertools import pairwise

from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message, StrictMessage
from sexton.owners.call_options import CallOptions
from sexton.owners.plugin import OwnerContext
from sexton.owners.port import OwnerSilent

MOST_ID_CHARACTERS = 128
"""See ``layout.check_id``. An id of another form is no reason for silence: it is a finding."""


class FrontEndOptions(Message):
    """What an instance of the catalog may be added with. The other options are those of ``CallOptions``.

    ``front_end``: where the front end answers, without ``/v1``; empty: checks compare records and objects only.
    """

    front_end: str = ""
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    ca_certs: str = ""


class InventoryAnswer(StrictMessage):
    """The answer to ``GET /v1/inventory?kind=KIND&after=ID&limit=N``: the next ids of live records, in order."""

    ids: tuple[str, ...]


def options(context: OwnerContext, instance: str) -> FrontEndOptions:
    """Return the options of an instance."""
    return FrontEndOptions.model_validate(context.registry.instance(instance).owner_options)


def read_ids(context: OwnerContext, instance: str, kind: str, after: str, limit: int) -> Sequence[str]:
    """Return the next ids that the front end has in memory; ``OwnerSilent``: it does not answer, or not in order."""
    from sexton.owners.caller import OwnerCaller  # it needs an extra, which instances without a front end do not

    given = options(context, instance)
    call = CallOptions(url=given.front_end, **given.model_dump(exclude={"front_end"}))
    answer = OwnerCaller(call, context.trust).get("inventory", InventoryAnswer, kind=kind, after=after, limit=limit)
    if len(answer.ids) > limit or any(first >= second for first, second in pairwise((after, *answer.ids))):
        raise OwnerSilent(
            f"{given.front_end} must list at most {limit:,} ids of kind {kind} behind {after!r}, in order"
        )
    try:
        check_text(*answer.ids)
    except BadInput as e:
        raise OwnerSilent(f"{given.front_end} lists an id of kind {kind} that is none: {e}") from e
    if too_long := next((id_ for id_ in answer.ids if len(id_) > MOST_ID_CHARACTERS), ""):
        raise OwnerSilent(f"{given.front_end} lists an id of {len(too_long):,} characters")
    return answer.ids
