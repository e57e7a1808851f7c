"""A complete placement is accepted, an invalid one is refused."""

import pytest
from pydantic import ValidationError

from sexton.kernel.errors import BadInput
from sexton.replication.replicas.model import MAX_PLACED_COPIES, Copy, Placement, Tablet
from sexton.replication.replicas.sql.placement import check_placement

B1, B2 = Copy(backend="b1", uid="u1"), Copy(backend="b2", uid="u2")
T1 = Tablet(tablet="t1", part="p1", copies=(B1, B2))


def place(*tablets: Tablet, table: str = "orders", dropped: tuple[str, ...] = ()) -> None:
    """Check a placement."""
    check_placement(Placement(db="sales", table=table, tablets=tablets, dropped=dropped))


def test_placement_of_too_many_copies_is_refused() -> None:
    names = tuple(f"n{n}" for n in range(MAX_PLACED_COPIES + 1))
    tablets = tuple(Tablet(tablet=n, part="p1", copies=(Copy(backend="b1", uid=n),)) for n in names)
    extra = tablets[1].model_copy(update={"copies": (*tablets[1].copies, Copy(backend="b2", uid="n0"))})
    with pytest.raises(BadInput, match=r"20,001 .* send at most 20,000 of each"):
        place(extra, *tablets[2:])
    for more in ({"tablets": tablets}, {"dropped": names}):
        with pytest.raises(ValidationError, match="at most 20000 items"):
            Placement(db="sales", table="orders", **more)
    place(*tablets[1:], dropped=names[1:])


T1_TWICE = (T1, T1.model_copy(update={"copies": (Copy(backend="b1", uid="u9"),)}))
REPLICA_TWICE = (T1, T1.model_copy(update={"tablet": "t2"}))
TWO_ON_ONE = T1.model_copy(update={"copies": (B1, Copy(backend="b1", uid="u9"))})


def test_complete_placement_is_accepted_an_invalid_one_refused() -> None:
    place(T1, Tablet(tablet="t2", part="p1", copies=(Copy(backend="b1", uid="u3"),)), dropped=("p2",))
    for message, tablets in (
        ("a tablet appears twice", T1_TWICE),
        ("a replica appears twice", REPLICA_TWICE),
        ("tablet t1 has no replica", (T1.model_copy(update={"copies": ()}),)),
        ("two replicas on one", (TWO_ON_ONE,)),
    ):
        with pytest.raises(BadInput, match=message):
            place(*tablets)
    with pytest.raises(BadInput, match="the table is missing"):
        place(table="")
    with pytest.raises(BadInput, match="partition p1 is listed both"):
        place(T1, dropped=("p1",))


def test_an_id_that_no_owner_has_is_refused() -> None:
    for id_ in ("", "p/2", "b 1", "t" * 129):
        for wrong in ({"backend": id_, "uid": "u1"}, {"backend": "b1", "uid": id_}):
            with pytest.raises(ValidationError):
                Copy(**wrong)
        with pytest.raises(ValidationError):
            Tablet(tablet=id_, part="p1", copies=(B1,))
        with pytest.raises(ValidationError):
            place(T1, dropped=(id_,))
