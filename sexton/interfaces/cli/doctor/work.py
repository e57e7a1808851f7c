"""Check the vaults (does each belong to this deployment?), and whether anything halts an instance."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from sexton.interfaces.cli.doctor.finding import DoctorFinding

if TYPE_CHECKING:
    from sexton.runtime.stores import DeploymentStores

MOST_CHECK_DAYS = 3
DAY_MS = 86_400_000


def examine_work(stores: "DeploymentStores") -> Iterator[DoctorFinding]:
    """Yield findings about vaults, the log of deletions, halts, live sides and checks."""
    yield _vaults(stores)
    yield _deletion_log(stores)
    yield _halted(stores)
    yield _live_sides(stores)
    yield _checks(stores)


def _vaults(stores: "DeploymentStores") -> DoctorFinding:
    from sexton.storage.port import VaultFault

    specs = stores.registry.vaults()
    faults = []
    for spec in specs:
        try:
            stores.vaults.get(spec.instance, spec.name)
        except VaultFault as e:
            faults.append(f"{spec.instance}/{spec.name}: {e.reason}")
    if faults:
        return DoctorFinding("FAIL", "vaults", "; ".join(faults), "nothing is deleted in them; see: sexton vault list")
    return DoctorFinding(
        "OK", "vaults", f"{len(specs)}, each proved to belong to this deployment" if specs else "none registered"
    )


def _deletion_log(stores: "DeploymentStores") -> DoctorFinding:
    """Return whether the log of deletions can be written elsewhere, if it is: without it nothing is deleted."""
    from sexton.storage.port import VaultFault

    url = stores.settings.audit_url
    if not url:
        return DoctorFinding("OK", "log of deletions", "each vault holds that of its own objects")
    try:
        next(iter(stores.audit_locations(stores.vaults).to_write("", "").list("doctor/")), None)
    except VaultFault as e:
        todo = "nothing is deleted until it can be written: create the place, or correct audit.audit_url and restart"
        return DoctorFinding("FAIL", "log of deletions", f"{url}: {e.reason}, {e.detail}", todo)
    return DoctorFinding("OK", "log of deletions", url)


def _halted(stores: "DeploymentStores") -> DoctorFinding:
    from sexton.operators.controls.policy import halt

    names = [i.id for i in stores.registry.instances()]
    with stores.db.read() as c:
        all_controls, now = stores.controls.all_in(c), stores.db.now(c)
    halts = {name: halt(all_controls, name, now) for name in names}
    details = [f"{name}: {h.why}" for name, h in halts.items() if h is not None]
    if details:
        return DoctorFinding("WARN", "halted", "; ".join(details), "if this is not intended, see: sexton blockers")
    return DoctorFinding("OK", "halted", "no instance is stopped, excluded by a list, or outside its windows")


def _live_sides(stores: "DeploymentStores") -> DoctorFinding:
    """Return whether the live side of each instance can be read as a round reads it, and what it cannot show.

    Reading a live view checks its login, too.
    """
    from sexton.owners.port import NoLiveSide, NotAsked, OwnerSilent

    state: Literal["WARN", "FAIL"] = "WARN"
    details, todo = [], "show one row per object: docs/integration.md"
    for instance in stores.registry.instances():
        last = stores.checks.last_ended(instance.id)
        if last is not None and last.evidence is not None and last.evidence.prefixes:
            details.append(f"{instance.id}: loss inside a prefix cannot be detected, max_delete_fraction is off")
        try:
            stores.owners.live(instance.id, (), lambda: None)
            stores.live_side.as_of(instance.id)
        except NotAsked as e:
            details.append(str(e))
        except NoLiveSide as e:
            details.append(f"{instance.id}: {e}")
        except OwnerSilent as e:
            details.append(f"{instance.id} keeps every mark: {e}")
            todo = "correct the view or its login, then run: sexton doctor; rules: docs/integration.md"
            if instance.mode == "enabled":  # nothing of it is deleted
                state = "FAIL"
    if details:
        return DoctorFinding(state, "live objects", "; ".join(details), todo)
    return DoctorFinding("OK", "live objects", "every owner shows which objects are live, object by object")


def _checks(stores: "DeploymentStores") -> DoctorFinding:
    """Return whether a check of each enabled instance was complete, and not too long ago."""
    oldest = stores.checks.now() - MOST_CHECK_DAYS * DAY_MS
    unchecked = []
    for instance in stores.registry.instances():
        whole = stores.checks.last_whole(instance.id)
        if instance.mode == "enabled" and (whole is None or whole.cutoff < oldest):
            when = "ever" if whole is None else f"for {MOST_CHECK_DAYS} days"
            unchecked.append(f"{instance.id}: no check was complete {when}")
    if unchecked:
        return DoctorFinding("WARN", "checks", "; ".join(unchecked), "sexton check run INSTANCE; sexton check list")
    return DoctorFinding("OK", "checks", "every enabled instance was checked completely within three days")
