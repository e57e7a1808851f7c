"""The number of live objects, of which a fraction may be deleted without approval, is not what a view claims."""

from sexton.check.model import RunState
from tests.integration.check.conftest import Owned, file_keys


def test_rows_that_name_no_object_of_a_vault_do_not_count(owned: Owned) -> None:
    owned.write_live(*file_keys(5))
    owned.live_rows(*((key, 10) for key in file_keys(40)), vault="elsewhere")

    assert owned.owner.live_objects("shop") == 5


def test_rows_count_no_more_than_the_last_check_listed(owned: Owned) -> None:
    owned.write_live(*file_keys(5))
    owned.write_old("data/t9/orphan_0.dat")
    assert owned.check().run.state is RunState.WHOLE
    owned.live_rows(*((key, 10) for key in file_keys(400, "t2")))

    assert owned.owner.live_objects("shop") == 6
