"""An owner of the tests of live views."""

from collections.abc import Iterator

import pytest

from tests.support.rig import Rig
from tests.support.tenant import Tenant


@pytest.fixture
def tenant(rig: Rig) -> Iterator[Tenant]:
    tenant = Tenant(rig)
    yield tenant
    rig.sql(f"DROP OWNED BY {tenant.name} CASCADE; DROP ROLE {tenant.name}")
