"""Open vaults, and prove before use that each is the one that its row and this deployment mean.

A clone of the database, an unmounted disk or an endpoint that now shows another bucket all fail the proof, and nothing
is deleted in a vault without a proof.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import STRICT, Trust
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import MARKER_KEY, Marker, VaultSpec
from sexton.storage.port import AnnouncedRounds, Vault, VaultFault
from sexton.storage.s3.vault import S3Vault

PROOF_SECONDS = 5.0
"""How long a successful proof may be used, counted from before the marker was read."""
ROW_SECONDS = 1.0
"""How long a vault's row is cached: otherwise a prefix of one file would cost three reads of the row."""


def open_vault(spec: VaultSpec, *, endpoint_url: str, trust: Trust = STRICT) -> Vault:
    """Return the vault that a row describes, unproved and without a request.

    Args:
        spec: the row.
        endpoint_url: the settings' S3 endpoint, used where the row names none; empty for AWS.
        trust: of connections to an S3 service.

    Raises:
        BadInput: a local vault's location is not an absolute path.
    """
    return LocalVault(spec) if spec.kind == "local" else S3Vault(spec, endpoint_url, trust)


@dataclass
class _OpenVault:
    spec: VaultSpec
    vault: Vault
    proved_at: float | None = None
    row_read_at: float = 0.0

    def is_proved(self, now: float) -> bool:
        return self.proved_at is not None and now - self.proved_at < PROOF_SECONDS


class ProvenVaults:
    """All vaults of one deployment. ``get`` uses proofs of at most 5 s and rows of at most 1 s. Thread-safe."""

    def __init__(
        self,
        lookup: Callable[[str, str], VaultSpec],
        deployment: str,
        endpoint_url: str = "",
        clock: Callable[[], float] = time.monotonic,
        rounds: AnnouncedRounds | None = None,
        trust: Trust = STRICT,
    ) -> None:
        """Create it without opening a vault.

        Args:
            lookup: returns the current row of (instance, vault name), or raises ``UnknownVault``.
            deployment: the deployment id from the environment of this process.
            endpoint_url: the settings' S3 endpoint.
            clock: seconds that never go back.
            rounds: the rounds of our database, with which a vault's last round is compared. None skips this
                comparison: only for reading vaults, never for deleting.
            trust: of connections to S3 services.

        Raises:
            BadInput: the deployment id is empty, which would match every row without one.
        """
        if not deployment:
            raise BadInput("the deployment id is empty; set SEXTON_DEPLOYMENT to the one `sexton init` printed")
        self._lookup, self._deployment, self._endpoint_url, self._clock = lookup, deployment, endpoint_url, clock
        self._rounds, self._trust = rounds, trust
        self._opened: dict[tuple[str, str], _OpenVault] = {}
        self._lock = threading.Lock()

    @classmethod
    def of_specs(
        cls, specs: Sequence[VaultSpec], deployment: str, endpoint_url: str = "", trust: Trust = STRICT
    ) -> "ProvenVaults":
        """Return these vaults, for reading: their rows are not read from a database, nor their rounds compared."""
        specs_by_name = {(spec.instance, spec.name): spec for spec in specs}
        return cls(lambda instance, name: specs_by_name[instance, name], deployment, endpoint_url, trust=trust)

    def get(self, instance: str, name: str) -> Vault:
        now = self._clock()
        with self._lock:
            cached = self._opened.get((instance, name))
        if cached is not None and cached.is_proved(now) and now - cached.row_read_at < ROW_SECONDS:
            return cached.vault
        spec = self._lookup(instance, name)
        identity = {"instance": (spec.instance, instance), "name": (spec.name, name)}
        self._compare(spec, identity, "row", "the request")
        deployment = {"deployment": (spec.deployment, self._deployment)}
        self._compare(spec, deployment, "row", "this process (SEXTON_DEPLOYMENT)")
        opened = self._open(instance, name, spec)
        opened.row_read_at = now
        if not opened.is_proved(now):
            self._prove(opened, now)
        return opened.vault

    def fault(self, instance: str, name: str) -> str:
        """Return why a vault cannot be proved now, for people; empty: it is proved. Raise ``UnknownVault``."""
        try:
            self.get(instance, name)
        except VaultFault as e:
            return f"{e.reason}: {e.detail}"
        return ""

    def confirm(self, instance: str, name: str) -> None:
        with self._lock:
            self._opened.pop((instance, name), None)
        self.get(instance, name)

    def _open(self, instance: str, name: str, spec: VaultSpec) -> _OpenVault:
        with self._lock:
            opened = self._opened.get((instance, name))
            if opened is None or opened.spec != spec:  # a changed row is another vault until proved
                opened = _OpenVault(spec, open_vault(spec, endpoint_url=self._endpoint_url, trust=self._trust))
                self._opened[instance, name] = opened
            return opened

    def _prove(self, opened: _OpenVault, started: float) -> None:
        spec = opened.spec
        marker = opened.vault.read_marker()
        if marker is None:
            raise VaultFault(
                spec.name,
                "NO_MARKER",
                f"there is no {MARKER_KEY} in {spec.location}/{spec.prefix}: this is not the vault that was added, or "
                "its disk is not mounted. Mount or restore the right one, or add this storage as a new vault",
            )
        marker_and_row = {
            "vault_uuid": (marker.vault_uuid, spec.uuid),
            "deployment": (marker.deployment, spec.deployment),
            "instance": (marker.instance, spec.instance),
            "name": (marker.name, spec.name),
        }
        self._compare(spec, marker_and_row, "marker", "the row")
        self._compare_rounds(spec, marker)
        seconds = self._clock() - started
        if seconds >= PROOF_SECONDS:
            raise VaultFault(
                spec.name,
                "UNREACHABLE",
                f"reading its marker took {seconds:.1f} s, too long to rely on it; check the store and the network",
            )
        opened.proved_at = started

    def announce(self, instance: str, name: str, round_: int, run: str) -> None:
        vault = self.get(instance, name)
        marker = vault.read_marker()
        if marker is not None and marker.round < round_:  # a late repetition must not hide a newer round
            vault.replace_marker(marker.model_copy(update={"round": round_, "run": run}))
            if self._rounds is not None:
                self._rounds.store_announced(instance, name, round_)
        self.confirm(instance, name)

    def _compare_rounds(self, spec: VaultSpec, marker: Marker) -> None:
        """Refuse a vault in which a round deleted that our database does not know.

        Exactly this round must be known, by number and run id: a copied database reuses the numbers of its original.
        """
        if self._rounds is None or not marker.round:
            return
        if not self._rounds.knows_round(spec.instance, marker.round, marker.run):
            raise VaultFault(
                spec.name,
                "BEHIND",
                f"round {marker.round} (run {marker.run}) deleted in it, and this database does not know that round: "
                "it is an older copy (restored, failed over or cloned). Stop the workers, undrop or hold each mark of "
                "this database that was undropped meanwhile, then run: sexton vault trust "
                f"{spec.instance} {spec.name}; all steps: docs/incidents.md#the-database-was-restored-or-failed-over",
            )

    def _compare(self, spec: VaultSpec, pairs: dict[str, tuple[str, str]], first: str, second: str) -> None:
        """Refuse a vault where the values of a pair differ or are empty; ``first``, ``second``: their sources."""
        differences = [
            f"{name} is {value!r} in the {first} and {other!r} in {second}"
            for name, (value, other) in pairs.items()
            if value != other or not value
        ]
        if differences:
            raise VaultFault(
                spec.name,
                "FOREIGN_MARKER",
                f"{'; '.join(differences)}. Nothing is deleted in this vault: use the database, deployment id and "
                "storage that belong together, or add the storage as a new vault",
            )
