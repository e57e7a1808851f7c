"""Every vault that a deployment opens follows the settings of outgoing connections."""

from pathlib import Path

import pytest

from config.engine_settings import EngineSettings
from sexton.kernel.trust import Trust
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.runtime.stores import DeploymentStores
from sexton.storage.model import VaultSpec
from sexton.storage.port import VaultFault
from tests.servers.postgres import new_database
from tests.support.rig import DEPLOYMENT, Rig

FAR = "http://s3.invalid:9000"


def _refusals(rig: Rig, trust: Trust) -> list[bool]:
    """Return whether each place that opens vaults refuses clear text; otherwise the vault fails for want of a login."""
    settings = EngineSettings(deployment=DEPLOYMENT, endpoint_url=FAR, audit_url="s3://b/log", trust=trust)
    stores = DeploymentStores(rig.db, settings)
    target = ConnectionTarget(deployment=DEPLOYMENT, database_url=rig.url, endpoint_url=FAR, trust=trust)
    spec = stores.registry.vault("shop", "far")
    openings = [
        lambda: stores.vaults.get("shop", "far"),
        lambda: stores.vaults_of_any_round.get("shop", "far"),
        lambda: stores.audit_locations(stores.vaults).to_write("shop", "far").read_marker(),
        lambda: target.vaults([spec]).get("shop", "far"),
        lambda: target.stores().vaults.get("shop", "far"),
    ]
    refusals = list[bool]()
    for opening in openings:
        with pytest.raises(VaultFault) as refused:
            opening()
        refusals.append("is not encrypted" in str(refused.value))
    return refusals


@pytest.mark.slow
def test_every_vault_is_opened_as_the_settings_permit(tmp_path: Path) -> None:
    rig = Rig(new_database()).instance()
    vault = VaultSpec(instance="shop", name="far", kind="s3", location="b", deployment=DEPLOYMENT, uuid="0" * 32)
    rig.operators.registry.insert_vault(vault, FAR)

    refused, permitted = _refusals(rig, Trust()), _refusals(rig, Trust(insecure_http=True))
    rig.db.close()

    assert (refused, permitted) == ([True] * 5, [False] * 5)
