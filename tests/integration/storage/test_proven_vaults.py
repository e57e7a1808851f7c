"""A vault is used only while marker, row and deployment matched at most 5 s ago."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.kinds import open_vault
from sexton.storage.model import Marker, VaultSpec
from sexton.storage.port import UnknownVault, VaultFault
from sexton.storage.vaults import ROW_SECONDS, ProvenVaults

SPEC = VaultSpec(instance="i1", name="hot", kind="local", location="/", prefix="wh/", uuid="9f0c", deployment="test-d")
MARKER = Marker(vault_uuid="9f0c", deployment="test-d", instance="i1", name="hot")


@dataclass
class Deployment:
    """A vault table and a clock that a test moves."""

    root: Path
    now: float = 100.0
    rows: dict[tuple[str, str], VaultSpec] = field(default_factory=dict)
    step: float = 0.0

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.rows["i1", "hot"] = SPEC.model_copy(update={"location": str(self.root)})
        open_vault(self.rows["i1", "hot"], endpoint_url="").write_marker(MARKER)
        self.vaults = ProvenVaults(self.lookup, "test-d", clock=self.clock)

    def lookup(self, instance: str, name: str) -> VaultSpec:
        try:
            return self.rows[instance, name]
        except KeyError:
            raise UnknownVault(f"instance {instance} has no vault {name}; add it with `sexton vault add`") from None

    def clock(self) -> float:
        self.now += self.step
        return self.now

    @property
    def marker(self) -> Path:
        return self.root / "wh" / "_sexton" / "vault.json"

    def change_row(self, **changes: str) -> None:
        self.rows["i1", "hot"] = self.rows["i1", "hot"].model_copy(update=changes)


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


def refusal(deployment: Deployment) -> VaultFault:
    with pytest.raises(VaultFault) as caught:
        deployment.vaults.get("i1", "hot")
    return caught.value


def test_a_proof_holds_for_less_than_five_seconds(deployment: Deployment) -> None:
    vault = deployment.vaults.get("i1", "hot")
    deployment.marker.unlink()

    assert vault.spec == deployment.rows["i1", "hot"]
    deployment.now += 4.9
    assert deployment.vaults.get("i1", "hot") is vault
    deployment.now += 0.1
    assert refusal(deployment).reason == "NO_MARKER"


def test_a_failed_proof_is_not_cached(deployment: Deployment) -> None:
    content = deployment.marker.read_bytes()
    deployment.marker.unlink()
    refusal(deployment)
    deployment.marker.write_bytes(content)

    assert deployment.vaults.get("i1", "hot").read_marker() == MARKER


def test_a_different_marker_is_foreign_and_names_the_difference(
    deployment: Deployment, subtests: pytest.Subtests
) -> None:
    for what in ["vault_uuid", "deployment", "instance", "name"]:
        with subtests.test(what=what):
            deployment.marker.write_text(MARKER.model_copy(update={what: "other"}).model_dump_json())

            fault = refusal(deployment)

            assert fault.reason == "FOREIGN_MARKER"
            assert f"{what} is 'other' in the marker" in fault.detail


def test_a_row_that_differs_is_refused_even_within_a_proof(tmp_path: Path) -> None:
    (tmp_path / "elsewhere" / "wh").mkdir(parents=True)
    for changes, reason in [
        ({"deployment": "prod"}, "FOREIGN_MARKER"),
        ({"instance": "i2"}, "FOREIGN_MARKER"),
        ({"name": "cold"}, "FOREIGN_MARKER"),
        ({"uuid": "1"}, "FOREIGN_MARKER"),
        ({"location": str(tmp_path / "elsewhere")}, "NO_MARKER"),
        ({"location": str(tmp_path / "unmounted")}, "NO_BUCKET"),
    ]:
        deployment = Deployment(tmp_path / "-".join(changes) / reason)
        deployment.vaults.get("i1", "hot")

        deployment.change_row(**changes)
        deployment.now += ROW_SECONDS

        assert refusal(deployment).reason == reason, changes


def test_a_row_is_read_at_most_once_a_second(deployment: Deployment) -> None:
    looked = []
    vaults = ProvenVaults(
        lambda *names: looked.append(names) or deployment.lookup(*names), "test-d", clock=deployment.clock
    )

    for _ in range(5):
        vaults.get("i1", "hot")
    deployment.now += ROW_SECONDS
    vaults.get("i1", "hot")

    assert len(looked) == 2


def test_a_clone_with_another_id_or_unknown_vault_is_refused(deployment: Deployment) -> None:
    staging = ProvenVaults(deployment.lookup, "staging", clock=deployment.clock)

    with pytest.raises(VaultFault, match=r"SEXTON_DEPLOYMENT"):
        staging.get("i1", "hot")
    with pytest.raises(UnknownVault, match="cold"):
        deployment.vaults.get("i1", "cold")


def test_empty_ids_match_no_marker(deployment: Deployment) -> None:
    deployment.change_row(uuid="")
    deployment.marker.write_text(MARKER.model_copy(update={"vault_uuid": ""}).model_dump_json())

    assert refusal(deployment).reason == "FOREIGN_MARKER"
    with pytest.raises(BadInput, match="SEXTON_DEPLOYMENT"):
        ProvenVaults(deployment.lookup, "")


def test_a_marker_that_took_too_long_to_read_proves_nothing(deployment: Deployment) -> None:
    deployment.step = 5.0

    assert refusal(deployment).reason == "UNREACHABLE"


def test_a_proof_is_as_old_as_the_request_for_its_marker(deployment: Deployment) -> None:
    deployment.step = 2.0
    deployment.vaults.get("i1", "hot")
    deployment.marker.unlink()
    deployment.step, deployment.now = 0.0, 107.0  # 5 s after the request, 3 s after the answer

    assert refusal(deployment).reason == "NO_MARKER"
