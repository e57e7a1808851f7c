"""Check what the database knows: settings, workers, roles, tokens, vaults, problems of instances, live objects, checks.

`sexton doctor --print-grants`: print the least rights that Sexton needs in S3, Kafka and PostgreSQL.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import typer

from sexton.insight.wording import utc
from sexton.interfaces.cli.doctor.finding import MAX_NAMED, DoctorFinding, Problem, judged
from sexton.interfaces.cli.output import emit_object

if TYPE_CHECKING:
    from config.live import LiveSettings
    from config.settings import Settings
    from sexton.database.roles import SchemaAccess
    from sexton.runtime.deployment import Deployment
    from sexton.runtime.stores import DeploymentStores
    from sexton.runtime.worker_rows import WorkerPresence

HERE = "this command"
MOST_CHECK_DAYS = 3
DAY_MS = 86_400_000


def examine_limits(settings: "Mapping[str, Settings]") -> Iterator[DoctorFinding]:
    """Yield a finding if the share of live objects that is deleted without approval is not limited.

    ``settings``: those in force for each instance, and for all under the empty name.
    """
    unlimited = [name for name, s in settings.items() if s.recycle.max_delete_fraction >= 1]
    if unlimited:
        scope = "" if "" in unlimited else f"{', '.join(unlimited)}: "
        share = "no share of the live objects is too large to be deleted without approval"
        todo = "lower recycle.max_delete_fraction; the default is 0.1"
        yield DoctorFinding("WARN", "limits", f"{scope}max_delete_fraction = 1: {share}", todo)


def examine_settings(live: "LiveSettings") -> Iterator[DoctorFinding]:
    """Yield a finding about the settings that the database changes, if there are any."""
    if ignored := live.ignored():
        todo = "set a value within its bounds (sexton settings set), or remove it (sexton settings unset)"
        detail = "; ".join(f"ignored: {entry.why}" for entry in ignored)
        yield DoctorFinding("WARN", "database settings", detail, todo)
    elif stored := live.rows():
        keys = ", ".join(dict.fromkeys(row.key for row in stored))
        yield DoctorFinding("OK", "database settings", f"in force instead of environment and file: {keys}")


def examine_workers(
    workers: "Sequence[WorkerPresence]", own: Mapping[str, str], in_database: frozenset[str]
) -> Iterator[DoctorFinding]:
    """Yield findings about the workers that run, none where no worker runs.

    Args:
        workers: those that report.
        own: the settings of this process.
        in_database: keys that the database sets for all instances, so that no file matters.
    """
    if not workers:
        return
    served = {w.worker: f", metrics at {w.metrics}" if w.metrics else "" for w in workers}
    described = (f"{w.worker} ({w.role}{f' {w.build}' if w.build else ''}{served[w.worker]})" for w in workers)
    yield DoctorFinding("OK", "workers", "; ".join(described))
    builds = {w.build for w in workers}
    if len(builds) > 1:
        detail = f"workers of {len(builds)} builds run: {', '.join(sorted(builds))}"
        yield DoctorFinding("WARN", "builds", detail, "restart the older")
    settings = {w.worker: w.settings for w in workers} | {HERE: own}
    differences = list[str]()
    for key in (key for key in own if key not in in_database):
        users: dict[str, list[str]] = defaultdict(list)
        for name, values in settings.items():
            users[values.get(key, "unknown")].append(name)
        if len(users) > 1:
            uses = (f"{value} in {' and '.join(names)}" for value, names in users.items())
            differences.append(f"{key}: {', '.join(uses)}")
    if differences:
        todo = "use one settings file everywhere and restart, or set it for all workers: sexton settings set KEY VALUE"
        yield DoctorFinding("WARN", "worker settings", "; ".join(differences), todo)


def examine_roles(stores: "DeploymentStores") -> DoctorFinding:
    """Return whether another role can act as Sexton's, or change what Sexton's role runs."""
    from sexton.database.roles import read_access

    with stores.db.read() as c:
        access = read_access(c)
    if problems := access_problems(access):
        return DoctorFinding("FAIL", "roles", "; ".join(problems), "; ".join(problems.values()))
    return DoctorFinding("OK", "roles", f"{access.role} is no superuser, and no other role can write what it trusts")


def access_problems(access: "SchemaAccess") -> dict[str, str]:
    """Return each way in which another role could act as Sexton's, or hide marks from it → what to do."""
    from sexton.database.engine import SEARCH_PATH

    role, owner = access.role, access.schema_owner
    foreign, writers = (", ".join(names[:MAX_NAMED]) for names in (access.foreign_objects, access.writers))
    lost = ", ".join(f"{instance} to {dropped}" for instance, dropped in access.lost_grants[:MAX_NAMED])
    rows = (
        (
            access.is_superuser,
            f"Sexton's role {role} is a superuser",
            "let Sexton log in as a role of its own, which owns schema sexton; sexton init prints the SQL",
        ),
        (
            owner in access.owner_roles,
            f"schema sexton belongs to {owner}, to which instances are granted",
            "ALTER SCHEMA … OWNER TO",
        ),
        (foreign, f"{foreign} not owned by {owner}, as their schema is", f"find out why; ALTER … OWNER TO {owner}"),
        (writers, f"other roles can change what Sexton trusts: {writers}", "REVOKE these privileges"),
        (
            lost,
            f"instances are granted to roles that were dropped: {lost}",
            "sexton instance revoke INSTANCE ROLE; for a new role of that name, or after a restore: instance grant",
        ),
        (
            access.search_path.replace(" ", "") != SEARCH_PATH,
            f"sessions find names in {access.search_path}, not only in {SEARCH_PATH}",
            f"let the pooler pass options, or: ALTER ROLE {role} SET search_path = {SEARCH_PATH}",
        ),
    )
    return {detail: todo for is_so, detail, todo in rows if is_so}


def examine_tokens(service: "Deployment") -> Iterator[DoctorFinding]:
    """Yield a warning about tokens that a program used lately and that end within two weeks, or ended; else none."""
    stores = service.stores
    if ended := service.ended_tokens():
        yield judged("ended tokens", [Problem("FAIL", str(row)) for row in ended], "", ended[0].way_out)
    if tokens := stores.tokens.ending()[1]:
        todo = "renew those still needed: sexton token renew TOKEN; or create others: sexton token create"
        ends = (f"token {token.id} ({token.scope}) is in use and ends {utc(token.expires_at)}" for token in tokens)
        yield judged("tokens", [Problem("WARN", text) for text in ends], "", todo)


def examine_spark(stores: "DeploymentStores", settings: "Settings") -> DoctorFinding:
    """Return how much work the Spark workers can take."""
    slots, free = stores.workers.count_slots()
    if slots:
        return DoctorFinding("OK", "spark", f"Spark workers take {slots} ranges or checks at once, {free} more now")
    threshold = f"{settings.spark.spark_threshold_objects:,} objects"
    return DoctorFinding("OK", "spark", f"no worker: checks and deletions of more than {threshold} take longer")


def examine_work(service: "Deployment") -> Iterator[DoctorFinding]:
    """Yield findings about vaults, the log of deletions, the problems of all instances, live objects and checks."""
    from sexton.insight.status import problems, worst_first
    from sexton.marks.kept import Severity
    from sexton.storage.port import VaultFault

    stores, unproved = service.stores, list[Problem]()
    vaults = stores.registry.vaults()
    for spec in vaults:
        try:
            stores.vaults.get(spec.instance, spec.name)
        except VaultFault as e:
            unproved.append(Problem("FAIL", f"{spec.instance}/{spec.name}: {e.reason}: {e.detail}"))
    fine = f"{len(vaults)}, each proved to belong to this deployment" if vaults else "none registered"
    yield judged("vaults", unproved, fine, "see: sexton vault list")
    yield _deletion_log(stores)
    instances = service.status().instances
    known = worst_first(row for status in instances for row in problems(status))
    was_applied = stores.db.noted_schedule()  # before that, rounds begin by hand
    for severity, about, fine in (
        (Severity.LOST, "lost objects", "the last checks confirmed no loss"),
        (Severity.FAULT, "last rounds", "they could use every vault and owner"),
        (Severity.FAILED, "failed rounds", "no last round failed"),
        (Severity.QUARANTINED, "quarantine", "no mark is quarantined"),
        (Severity.OVERDUE, "rounds", "every instance has its rounds"),
        (Severity.HALTED, "halted", "no instance is stopped, excluded by a list, outside its windows, or paused"),
        (Severity.APPROVAL, "approvals", "no plan awaits approval"),
    ):
        rows = [row for row in known if row.severity is severity]
        fails = severity is Severity.LOST or (severity is Severity.OVERDUE and was_applied)
        listed = [Problem("FAIL" if fails else "WARN", str(row)) for row in rows]
        yield judged(about, listed, fine, rows[0].way_out if rows else "")
    fine = "every owner shows which objects are live, object by object"
    todo = "show one row per object; correct the view or its login if it fails: docs/integration.md"
    yield judged("live objects", _live_objects(stores), fine, todo)
    unchecked, oldest = list[Problem](), stores.checks.now() - MOST_CHECK_DAYS * DAY_MS
    for status in instances:
        if status.mode == "enabled" and (status.checked.whole or 0) < oldest:
            when = "ever" if status.checked.whole is None else f"for {MOST_CHECK_DAYS} days"
            unchecked.append(Problem("WARN", f"{status.instance}: no check was complete {when}"))
    fine = "every enabled instance was checked completely within three days"
    yield judged("checks", unchecked, fine, "sexton check run INSTANCE; sexton check list")


def examine_notices(service: "Deployment") -> Iterator[DoctorFinding]:
    """Yield whether the webhook accepts notices; none where no worker posts any."""
    from sexton.runtime.notices import Notices

    if failure := Notices(service).failure():
        todo = "repair the receiver, or correct [notices] on every worker and restart; notices are repeated until then"
        yield DoctorFinding("WARN", "notices", failure, todo)
    elif service.settings.notices.url:
        yield DoctorFinding("OK", "notices", "none waits for the webhook to accept it")


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


def _live_objects(stores: "DeploymentStores") -> Iterator[Problem]:
    """Yield what the live side of each instance cannot show, if it can be read as a round reads it.

    Reading a live view checks its login, too.
    """
    from sexton.owners.port import NoLiveSide, NotAsked, OwnerSilent

    for instance in stores.registry.instances():
        last = stores.checks.last_ended(instance.id)
        if last is not None and last.evidence is not None and last.evidence.prefixes:
            inside = "loss inside a prefix cannot be detected, max_delete_fraction is off"
            yield Problem("WARN", f"{instance.id}: {inside}")
        try:
            stores.owners.live(instance.id, (), lambda: None)
            stores.live_side.as_of(instance.id, lambda: None)
        except NotAsked as e:
            yield Problem("WARN", str(e))
        except NoLiveSide as e:
            yield Problem("WARN", f"{instance.id}: {e}")
        except OwnerSilent as e:  # nothing of it is deleted
            yield Problem("FAIL" if instance.mode == "enabled" else "WARN", f"{instance.id} keeps every mark: {e}")


PAGE_TOPICS = 100


def show_grants(settings: "Settings") -> None:
    """Print the grants for every registered vault, enabled topic, and role."""
    from sexton.database import schema
    from sexton.database.engine import Database
    from sexton.runtime.stores import DeploymentStores
    from sexton.wal.port import acl_commands

    with closing(Database.open(settings.require_database_url(), live_url=settings.live_database_url)) as db:
        schema.check(db, settings.require_deployment())
        stores = DeploymentStores(db, settings.engine_settings())
        policies, acls, sql = _policies(stores), list[str](), _sql(stores, settings)
        if kafka := stores.settings.wal.kafka:  # otherwise the log is in the database
            principal = f"User:{kafka.get('sasl.username', 'sexton')}"
            names, after = list[str](), ""
            while page := stores.wal.store.topics(after, PAGE_TOPICS, enabled=True):
                names += [topic.name for topic in page]
                after = page[-1].name
            acls = acl_commands(names, principal, kafka.get("bootstrap.servers", ""))
    emit_object({"s3": policies, "kafka": acls, "postgresql": sql})
    for policy in policies:
        typer.echo(f"# IAM policy: {policy['place']}")
        typer.echo(json.dumps(policy["policy"], indent=2))
    for title, lines in (("# ACLs of Kafka", acls), ("-- SQL, as an administrator", sql)):
        if lines:
            typer.echo("\n".join([title, *lines]))
    if not any((policies, acls, sql)):
        typer.echo("no vault in S3, no enabled topic and no role is known yet; see: sexton vault add")


def _policies(stores: "DeploymentStores") -> list[dict[str, Any]]:
    """Return the policy of each vault in S3, and of the separate place of the log of deletions."""
    from sexton.recycle.audit.model import separate_location
    from sexton.storage.s3.permissions import log_policy, vault_policy

    policies = [
        {"place": f"vault {v.name} of {v.instance}, s3://{v.location}/{v.prefix}", "policy": vault_policy(v)}
        for v in stores.registry.vaults()
        if v.kind == "s3"
    ]
    log = separate_location(stores.settings.audit_url, stores.settings.deployment)
    if log is not None and log.kind == "s3":
        policies.append({"place": f"log of deletions, s3://{log.location}/{log.prefix}", "policy": log_policy(log)})
    return policies


def _sql(stores: "DeploymentStores", settings: "Settings") -> list[str]:
    """Return the grants of Sexton's own role, of the owners' roles, and of the roles that read live views."""
    from sexton.database.roles import granted_roles, grants, reader_grants
    from sexton.operators.registry.store import names_a_view

    url = urlsplit(settings.database_url)
    lines = [f'GRANT CREATE ON DATABASE "{unquote(url.path[1:])}" TO "{unquote(url.username or "sexton")}";']
    roles = {role for of_instance in granted_roles(stores.db).values() for role in of_instance}
    lines += [line for role in sorted(roles) for line in grants(role).splitlines()]
    for instance in filter(names_a_view, stores.registry.instances()):
        if login := stores.db.live_login(instance.id):
            lines += reader_grants(instance.live_view, login)
    return lines
