"""Opens vaults, and proves before use that each is the one its row and this deployment mean.

A clone of the database, an unmounted disk or an endpoint that now shows another bucket all fail the proof, and a vault
without proof is one where nothing is deleted.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sexton.kernel.errors import BadInput
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import MARKER_KEY, Marker, VaultSpec
from sexton.storage.port import Vault, VaultFault
from sexton.storage.s3.vault import S3Vault

PROOF_SECONDS = 5.0
"""How long a successful proof may be used, counted from before the marker was read."""
ROW_SECONDS = 1.0
"""How long a vault's row may be used without another look: a prefix of one file would be a file and three looks."""


def open_vault(spec: VaultSpec, *, endpoint_url: str) -> Vault:
    """Return the vault a row describes, unproved and without a request.

    Args:
        spec: the row.
        endpoint_url: the settings' S3 endpoint, used where the row names none; empty for AWS.

    Raises:
        BadInput: a local vault's location is not an absolute path.
    """
    return LocalVault(spec) if spec.kind == "local" else S3Vault(spec, endpoint_url)


@dataclass
class _Opened:
    spec: VaultSpec
    vault: Vault
    proved_at: float | None = None
    looked_at: float = 0.0
    """When its row was last looked at."""

    def proved(self, now: float) -> bool:
        return self.proved_at is not None and now - self.proved_at < PROOF_SECONDS


class ProvenVaults:
    """All vaults of one deployment; no proof of what ``get`` returns is older than 5 s, no row than 1 s. Shareable."""

    def __init__(
        self,
        lookup: Callable[[str, str], VaultSpec],
        deployment: str,
        endpoint_url: str = "",
        clock: Callable[[], float] = time.monotonic,
        knows_round: Callable[[str, int, str], bool] | None = None,
    ) -> None:
        """Nothing is opened yet.

        Args:
            lookup: returns the row of (instance, vault name) as it is now, or raises ``UnknownVault``.
            deployment: the id this process was given in its environment.
            endpoint_url: the settings' S3 endpoint.
            clock: seconds that never go back.
            knows_round: tells whether a round of an instance, by number and run id, is in our database; where None no
                vault is compared with it (only for looking, never for deleting).

        Raises:
            BadInput: the deployment id is empty, which would match every row that has none.
        """
        if not deployment:
            raise BadInput("the deployment id is empty; set SEXTON_DEPLOYMENT to the one `sexton init` printed")
        self._lookup, self._deployment, self._endpoint_url, self._clock = lookup, deployment, endpoint_url, clock
        self._knows_round = knows_round
        self._opened: dict[tuple[str, str], _Opened] = {}
        self._lock = threading.Lock()

    def get(self, instance: str, name: str) -> Vault:
        now = self._clock()
        with self._lock:
            known = self._opened.get((instance, name))
        if known is not None and known.proved(now) and now - known.looked_at < ROW_SECONDS:
            return known.vault
        spec = self._lookup(instance, name)
        self._compare(spec, {"instance": (spec.instance, instance), "name": (spec.name, name)}, "row", "what was asked")
        ours = {"deployment": (spec.deployment, self._deployment)}
        self._compare(spec, ours, "row", "this process (SEXTON_DEPLOYMENT)")
        opened = self._open(instance, name, spec)
        opened.looked_at = now
        if not opened.proved(now):
            self._prove(opened, now)
        return opened.vault

    def confirm(self, instance: str, name: str) -> None:
        with self._lock:
            self._opened.pop((instance, name), None)
        self.get(instance, name)

    def _open(self, instance: str, name: str, spec: VaultSpec) -> _Opened:
        with self._lock:
            opened = self._opened.get((instance, name))
            if opened is None or opened.spec != spec:  # a changed row is another vault until proved
                opened = _Opened(spec, open_vault(spec, endpoint_url=self._endpoint_url))
                self._opened[instance, name] = opened
            return opened

    def _prove(self, opened: _Opened, started: float) -> None:
        spec = opened.spec
        marker = opened.vault.read_marker()
        if marker is None:
            raise VaultFault(
                spec.name,
                "NO_MARKER",
                f"there is no {MARKER_KEY} in {spec.location}/{spec.prefix}; it is not the vault that was added, or "
                "its disk is not mounted: put the right one there, or add it as a new vault",
            )
        told = {
            "vault_uuid": (marker.vault_uuid, spec.uuid),
            "deployment": (marker.deployment, spec.deployment),
            "instance": (marker.instance, spec.instance),
            "name": (marker.name, spec.name),
        }
        self._compare(spec, told, "marker", "the row")
        self._compare_rounds(spec, marker)
        taken = self._clock() - started
        if taken >= PROOF_SECONDS:
            raise VaultFault(spec.name, "UNREACHABLE", f"its marker took {taken:.1f} s to read, too long to rely on it")
        opened.proved_at = started

    def announce(self, instance: str, name: str, round_: int, run: str) -> None:
        vault = self.get(instance, name)
        marker = vault.read_marker()
        if marker is not None and marker.round < round_:  # a late repetition must not hide a newer round
            vault.replace_marker(marker.model_copy(update={"round": round_, "run": run}))
        self.confirm(instance, name)

    def _compare_rounds(self, spec: VaultSpec, marker: Marker) -> None:
        """Refuse a vault in which somebody deleted that our database knows nothing of.

        That very round must be known: numbers alone say nothing, as a copy counts on from where it was taken.
        """
        if self._knows_round is None or not marker.round:
            return
        if not self._knows_round(spec.instance, marker.round, marker.run):
            raise VaultFault(
                spec.name,
                "BEHIND",
                f"round {marker.round} (run {marker.run}) deleted in it, and this database does not know it: the "
                "database is an older copy (restored, failed over or cloned). Stop the workers, see that nothing "
                f"marked here was taken back meanwhile, then: sexton vault trust {spec.instance} {spec.name}",
            )

    def _compare(self, spec: VaultSpec, pairs: dict[str, tuple[str, str]], one: str, other: str) -> None:
        wrong = [
            f"{what} is {a!r} in the {one} and {b!r} in {other}" for what, (a, b) in pairs.items() if a != b or not a
        ]
        if wrong:
            raise VaultFault(
                spec.name,
                "FOREIGN_MARKER",
                f"{'; '.join(wrong)}. Nothing is deleted in it: use the database, deployment id and storage that "
                "belong together, or add the storage as a new vault",
            )
