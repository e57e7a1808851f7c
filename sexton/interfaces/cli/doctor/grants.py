"""`sexton doctor --print-grants`: print the least rights that Sexton needs in S3, Kafka and PostgreSQL."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import typer

from sexton.interfaces.cli.json_output import emit_object

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.runtime.stores import DeploymentStores

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
            acls = acl_commands(_enabled_topics(stores), principal, kafka.get("bootstrap.servers", ""))
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


def _enabled_topics(stores: "DeploymentStores") -> Iterator[str]:
    after: str | None = ""
    while after is not None:
        page = stores.wal.store.topics(after, PAGE_TOPICS, enabled=True)
        yield from (topic.name for topic in page)
        after = page[-1].name if page else None


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
