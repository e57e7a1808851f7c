"""Check a placement before it is stored. Pure."""

from sexton.kernel.errors import BadInput
from sexton.replication.names import check_names
from sexton.replication.replicas.model import MAX_PLACED_COPIES, Placement, Tablet


def check_placement(order: Placement) -> None:
    """Check that a placement is complete and names nothing twice.

    Raises:
        BadInput: an id appears twice, a tablet has no replica, or a partition is placed and dropped.
    """
    check_names(order.db, order.table)
    if not order.table:
        raise BadInput("the table is missing: name the table of the tablets")
    copies = [copy for tablet in order.tablets for copy in tablet.copies]
    if max(len(copies), len(order.dropped)) > MAX_PLACED_COPIES:
        raise BadInput(
            f"{len(copies):,} replicas and {len(order.dropped):,} dropped partitions are too many for one placement: "
            f"send at most {MAX_PLACED_COPIES:,} of each, partition by partition"
        )
    if len({tablet.tablet for tablet in order.tablets}) < len(order.tablets):
        raise BadInput("a tablet appears twice: name each tablet once, with all its replicas")
    if len({(copy.backend, copy.uid) for copy in copies}) < len(copies):
        raise BadInput("a replica appears twice: name each uid of a backend once")
    for tablet in order.tablets:
        _check_copies(tablet)
    placed_and_dropped = {tablet.part for tablet in order.tablets} & set(order.dropped)
    if placed_and_dropped:
        raise BadInput(f"partition {min(placed_and_dropped)} is listed both in tablets and in dropped partitions")


def _check_copies(tablet: Tablet) -> None:
    if not tablet.copies:
        raise BadInput(f"tablet {tablet.tablet} has no replica: nothing would retain the versions that it needs")
    if len({copy.backend for copy in tablet.copies}) < len(tablet.copies):
        raise BadInput(f"tablet {tablet.tablet} has two replicas on one backend")
