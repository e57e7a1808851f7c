"""A wrong or missing name of an instance is answered with what to write."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.operators.registry.store import Registry
from tests.support.rig import Rig


def test_a_wrong_name_of_an_instance_is_refused(rig: Rig) -> None:
    with pytest.raises(BadInput, match="use lower-case letters, digits, - and _, at most 63; the first is a letter or"):
        rig.registry.add_instance("My Shop")


def test_no_registered_instance_is_answered_with_the_command(database_url: str) -> None:
    db = Database.open(database_url)

    with pytest.raises(BadInput, match="no instance is registered; add one: sexton instance add NAME"):
        Registry(db).resolve_instance(None)
    db.close()
