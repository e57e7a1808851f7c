"""The doctor warns while requests to flush are not signed."""

import pytest

from sexton.interfaces.cli.doctor.streams import examine_flushes
from sexton.wal.model import WalSettings


def test_doctor_warns_of_unsigned_requests_to_flush() -> None:
    [finding] = examine_flushes(WalSettings())

    assert (finding.state, finding.todo[:20]) == ("WARN", "set wal.flush_secret")


@pytest.mark.parametrize("settings", [{"flush_secret": "s" * 32}, {"flushes": False}, {"flushes_loopback": True}])
def test_doctor_is_silent_where_nothing_is_to_do(settings: dict[str, object]) -> None:
    assert list(examine_flushes(WalSettings.model_validate(settings))) == []
