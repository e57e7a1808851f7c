"""`vault add` validates before it writes, and takes over a marker only of its own deployment that has no row."""

from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.registry.add_vault import add_vault
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import Marker, VaultSpec
from sexton.storage.port import VaultFault
from tests.support.rig import DEPLOYMENT, Rig


@pytest.fixture
def spec(rig: Rig, tmp_path: Path) -> VaultSpec:
    rig.registry.add_instance("lake")
    place = tmp_path / "place"
    place.mkdir()
    return VaultSpec(instance="lake", name="cold", kind="local", location=str(place))


def _leave_marker(spec: VaultSpec, **changes: object) -> Marker:
    """Leave a marker without a row, as a command that was killed before it stored the row did."""
    marker = Marker(vault_uuid="9f0c", deployment=DEPLOYMENT, instance="lake", name="other")
    marker = marker.model_copy(update=changes)
    LocalVault(spec).write_marker(marker)
    return marker


def test_a_refused_name_leaves_nothing_in_the_place(rig: Rig, spec: VaultSpec) -> None:
    for name in ("Cold", "_cold", "c" * 64, "c/d", ""):
        with pytest.raises(BadInput, match="lower-case letters, digits, - and _"):
            add_vault(rig.registry, spec.model_copy(update={"name": name}), DEPLOYMENT, "")

    assert list(Path(spec.location).iterdir()) == []
    assert add_vault(rig.registry, spec, DEPLOYMENT, "").name == "cold"


def test_a_marker_without_a_row_is_taken_over_on_request(rig: Rig, spec: VaultSpec) -> None:
    left = _leave_marker(spec)

    with pytest.raises(BadInput, match=r"no such vault.*add --take-over"):
        add_vault(rig.registry, spec, DEPLOYMENT, "")
    added = add_vault(rig.registry, spec, DEPLOYMENT, "", take_over=True)

    assert added.uuid == left.vault_uuid
    assert rig.vaults.get("lake", "cold").read_marker() == left.model_copy(update={"name": "cold"})


def test_a_take_over_of_another_deployment_is_refused(rig: Rig, spec: VaultSpec) -> None:
    left = _leave_marker(spec, deployment="test-another")

    with pytest.raises(BadInput, match="in deployment test-another; two must not delete in one place"):
        add_vault(rig.registry, spec, DEPLOYMENT, "", take_over=True)
    assert LocalVault(spec).read_marker() == left


def test_a_take_over_of_a_registered_vault_is_refused(rig: Rig, spec: VaultSpec, tmp_path: Path) -> None:
    registered = add_vault(rig.registry, spec, DEPLOYMENT, "")
    copy = spec.model_copy(update={"name": "copy", "location": str(tmp_path / "copy")})
    Path(copy.location).mkdir()
    left = _leave_marker(copy, vault_uuid=registered.uuid, name="cold")

    with pytest.raises(BadInput, match="which is registered; two must not delete in one place"):
        add_vault(rig.registry, copy, DEPLOYMENT, "", take_over=True)
    assert LocalVault(copy).read_marker() == left


def test_a_vault_taken_over_is_behind_if_its_round_is_unknown(rig: Rig, spec: VaultSpec) -> None:
    _leave_marker(spec, round=7, run="r7")

    add_vault(rig.registry, spec, DEPLOYMENT, "", take_over=True)

    with pytest.raises(VaultFault, match="BEHIND"):
        rig.vaults.get("lake", "cold")
