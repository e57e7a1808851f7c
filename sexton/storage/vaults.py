"""Open vaults, and prove before use that each is the one that its row and this deployment mean.

A clone of the database, an unmounted disk or an endpoint that now shows another bucket all fail the proof, and nothing
is deleted in a vault without a proof.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import STRICT, Trust
from sexton.storage.kinds import open_vault
from sexton.storage.model import MARKER_KEY, ClaimId, Marker, VaultSpec
from sexton.storage.port import MarkerRecords, MarkerTurn, Vault, VaultFault

PROOF_SECONDS = 5.0
"""How long a successful proof may be used, counted from before the marker was read."""
ROW_SECONDS = 1.0
"""How long a vault's row is cached: otherwise a prefix of one file would cost three reads of the row."""
NO_CLAIM = ClaimId(0, 0)


@dataclass
class _OpenVault:
    spec: VaultSpec
    vault: Vault
    proved_at: float | None = None
    row_read_at: float = 0.0
    last_claim: ClaimId = NO_CLAIM
    """As its marker was last read or written."""
    writing: threading.Lock = field(default_factory=threading.Lock)
    """Held by the thread that writes the marker, so that the others wait here and not in the database."""

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
        records: MarkerRecords | None = None,
        trust: Trust = STRICT,
    ) -> None:
        """Create it without opening a vault.

        Args:
            lookup: returns the current row of (instance, vault name), or raises ``UnknownVault``.
            deployment: the deployment id from the environment of this process.
            endpoint_url: the settings' S3 endpoint.
            clock: seconds that never go back.
            records: the rounds and claims of our database, with which those of a marker are compared. None skips this
                comparison: only for reading vaults, never for deleting.
            trust: of connections to S3 services.

        Raises:
            BadInput: the deployment id is empty, which would match every row without one.
        """
        if not deployment:
            raise BadInput("the deployment id is empty; set SEXTON_DEPLOYMENT to the one `sexton init` printed")
        self._lookup, self._deployment, self._endpoint_url, self._clock = lookup, deployment, endpoint_url, clock
        self._records, self._trust = records, trust
        self._opened: dict[tuple[str, str], _OpenVault] = {}
        self._lock = threading.Lock()

    @classmethod
    def of_specs(
        cls, specs: Sequence[VaultSpec], deployment: str, endpoint_url: str = "", trust: Trust = STRICT
    ) -> "ProvenVaults":
        """Return these vaults, for reading: their rows are not read from a database, nor their markers' rounds."""
        specs_by_name = {(spec.instance, spec.name): spec for spec in specs}
        return cls(lambda instance, name: specs_by_name[instance, name], deployment, endpoint_url, trust=trust)

    def get(self, instance: str, name: str) -> Vault:
        return self._proved(instance, name).vault

    def _proved(self, instance: str, name: str) -> _OpenVault:
        now = self._clock()
        with self._lock:
            cached = self._opened.get((instance, name))
        if cached is not None and cached.is_proved(now) and now - cached.row_read_at < ROW_SECONDS:
            return cached
        spec = self._lookup(instance, name)
        identity = {"instance": (spec.instance, instance), "name": (spec.name, name)}
        self._compare(spec, identity, "row", "the request")
        deployment = {"deployment": (spec.deployment, self._deployment)}
        self._compare(spec, deployment, "row", "this process (SEXTON_DEPLOYMENT)")
        with self._lock:
            opened = self._opened.get((instance, name))
            if opened is None or opened.spec != spec:  # a changed row is another vault until proved
                opened = _OpenVault(spec, open_vault(spec, endpoint_url=self._endpoint_url, trust=self._trust))
                self._opened[instance, name] = opened
        opened.row_read_at = now
        if not opened.is_proved(now):
            self._prove(opened, now)
        return opened

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

    def _prove(self, opened: _OpenVault, started: float) -> None:
        spec, records = opened.spec, self._records
        knows = partial(records.knows, spec.instance) if records is not None else None
        marker = self._proved_marker(opened, knows)
        seconds = self._clock() - started
        if seconds >= PROOF_SECONDS:
            raise VaultFault(
                spec.name,
                "UNREACHABLE",
                f"reading its marker took {seconds:.1f} s, too long to rely on it; check the store and the network",
            )
        opened.last_claim, opened.proved_at = marker.last_claim, started

    def _proved_marker(self, opened: _OpenVault, knows: Callable[[Marker], bool] | None) -> Marker:
        """Read a vault's marker, and return it if it is the vault of its row, in which no other database deleted."""
        spec, marker = opened.spec, opened.vault.read_marker()
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
        if knows is not None and marker.round and not knows(marker):
            round_ = f"round {marker.round} (run {marker.run})"
            raise VaultFault(
                spec.name,
                "BEHIND",
                f"{f'claim {marker.claim} of {round_}' if marker.claim else round_} deleted in it, which this database "
                "does not know: it is an older copy (restored, failed over or cloned). Stop the workers, undrop or "
                "hold each mark of this database that was undropped meanwhile, then run: sexton vault trust "
                f"{spec.instance} {spec.name} --reason TEXT; all steps: "
                "docs/incidents.md#the-database-was-restored-or-failed-over",
            )
        return marker

    def announce(self, instance: str, name: str, round_: int) -> None:
        opened = self._proved(instance, name)
        with self._writing(opened) as turn:
            marker = self._proved_marker(opened, turn.knows)
            begun = turn.with_last_claim(marker, round_)
            if marker.last_claim <= begun.last_claim:  # a late repetition must not hide a newer round
                opened.vault.replace_marker(begun)
                turn.store_announced(round_)
        self.confirm(instance, name)

    def name_claim(self, instance: str, name: str, claim: ClaimId) -> None:
        opened = self._proved(instance, name)
        if opened.last_claim >= claim:
            return
        with opened.writing:
            if opened.last_claim >= claim:  # another thread has written it meanwhile
                return
            with self._writing(opened) as turn:
                marker = self._proved_marker(opened, turn.knows)
                if marker.last_claim < claim:
                    marker = turn.with_last_claim(marker, claim.round)
                    opened.vault.replace_marker(marker)
                opened.last_claim = marker.last_claim

    def _writing(self, opened: _OpenVault) -> AbstractContextManager[MarkerTurn]:
        if self._records is None:
            raise ValueError("these vaults are for reading: their markers are not compared with a database")
        return self._records.writing(opened.spec.instance, opened.spec.name)

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
