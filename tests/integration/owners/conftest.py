"""An owner of the tests of live views."""

from collections.abc import Iterator

import pytest

from tests.support.rig import Rig
from tests.support.tenant import Tenant


@pytest.fixture
def tenant(postgres_rig: Rig) -> Iterator[Tenant]:
    tenant = Tenant(postgres_rig)
    yield tenant
    postgres_rig.sql(f"DROP OWNED BY {tenant.name} CASCADE; DROP ROLE {tenant.name}")
