"""Requests that schemathesis generates from the OpenAPI document, with a token of each grant.

No request is answered with a fault of the server, a token that reads changes nothing, and every other token changes
only tables of its grant and only rows of its instance.
"""

from functools import cache
from itertools import cycle
from pathlib import Path

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from sqlalchemy import select

from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.api.app import create
from tests.integration.interfaces.api.routes import VALUES
from tests.integration.interfaces.api.two_instances import two_instances
from tests.servers.api import Api
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import DEPLOYMENT, Rig

FEW, MANY = 2, 60
"""Requests of each kind for each route and scope, in `make test` and in `make soak`."""
AWAY = ("TEMPORAL_AWAY", "LOG_FAULT")
"""Here no Temporal server runs, and the log has no topic."""
LONGEST_WAIT_SECONDS = 0.1
LOGIN = "/v1/token"
"""It needs no token; ``test_login`` tests it."""

LOG = {"call"}
"""A refused request is logged, too."""
JOB = LOG | {"protection", "protection_item", "protection_chunk", "counter", "binlog_consumer"}
NODE = LOG | {"wal_region", "wal_pin", "wal_node", "backend", "replica", "binlog_partition_cut", "journal_follower"}
OWNER = (
    LOG
    | {"instance", "wal_topic", "wal_region", "replica", "journal", "journal_head", "binlog_log", "binlog"}
    | {"binlog_round", "binlog_table_record", "binlog_partition_version", "binlog_partition_cut", "binlog_consumer"}
)
OPERATE = (
    OWNER
    | JOB
    | NODE
    | {
        "control",
        "finding",
        "plan",
        "wal_topic",
        "hold",
        "mark",
        "mark_history",
        "pace_cap",
        "retention",
        "setting",
        "vault",
    }
)
MAY_CHANGE = {
    "read": LOG,
    "read@a": LOG,
    "owner@a": OWNER,
    "operate@a": OPERATE,
    "admin": OPERATE | {"token", "claim"},
    "sync:copy@a": JOB,
    "node:n7@a": NODE,
}
"""Scope → tables that requests with it may change."""
OF_EACH_KIND = ("read@a", "operate@a", "node:n7@a")
"""Of a reader, of a person and of a program; soak sends with every scope."""


def rows(rig: Rig, instance: str | None = None) -> dict[str, frozenset[str]]:
    """Return the rows of every table; ``instance``: only of tables that name an instance, and only its rows.

    Left out are tokens, because each row says when it was used, and ``seq``, which only serves as a lock.
    """
    found = {}
    with rig.db.read() as c:
        for name, table in vars(rig.db.t).items():
            query = select(*(column for column in table.c if column.name != "seq"))
            if instance is not None and "instance" in table.c and name != "call":
                query = query.where(table.c.instance == instance)
            elif instance is not None or name == "token":
                continue
            found[name] = frozenset(str(row._mapping) for row in c.execute(query))
    return found


@cache
def generated(count: int) -> dict[str, list[Case]]:
    """Return for each route some requests, valid and invalid by the document: in turn about ``a``, ``b``, and nothing.

    They are made once for all scopes.
    """
    settings = Settings(deployment=DEPLOYMENT, database_url="postgresql://sexton@127.0.0.1/sexton")
    document = create(settings, Database.open(settings.database_url)).openapi()
    modes = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    cases: dict[str, list[Case]] = {}
    for result in schemathesis.openapi.from_dict(document).get_all_operations():
        operation = result.ok()
        if operation.path != LOGIN:
            strategy = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))
            subjects = cycle(("a", "b", None))
            about_subjects = [
                about(case, subject) for case, subject in zip(drawn(strategy, count), subjects, strict=False)
            ]
            cases.setdefault(operation.path, []).extend(about_subjects)
    return cases


def drawn(strategy: st.SearchStrategy[Case], count: int) -> list[Case]:
    """Return some requests of a strategy, the same in each run."""
    cases: list[Case] = []

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy)
    def draw(case: Case) -> None:
        cases.append(case)

    draw()
    return cases


def about(case: Case, instance: str | None) -> Case:
    """Return the request about what the examples name, in an instance; without a long poll, which only takes time.

    ``instance``: None: the request names what was generated.
    """
    query = case.query if isinstance(case.query, dict) else {}
    if isinstance(query.get("wait"), int | float):
        case.query = query = {**query, "wait": min(query["wait"], LONGEST_WAIT_SECONDS)}
    if instance is not None:
        values = VALUES | {"instance": instance}
        parameters = case.path_parameters if isinstance(case.path_parameters, dict) else {}
        case.path_parameters = {name: values.get(name, value) for name, value in parameters.items()}
        if "instance" in {parameter.name for parameter in case.operation.query}:
            case.query = {**query, "instance": instance}
    return case


def send_generated(api: Api, scope: str, count: int) -> list[str]:
    """Send requests for each route; return those that were answered with a fault of the server."""
    headers = {"Authorization": f"Bearer {api.token(scope)}"}
    faults = []
    with requests.Session() as session:
        for cases in generated(count).values():
            for case in cases:
                answer = case.call(base_url=api.url, session=session, headers=headers, timeout=PATIENCE_SECONDS)
                if answer.status_code >= 500 and answer.json().get("code") not in AWAY:
                    faults.append(f"{answer.status_code} {case.as_curl_command()}: {answer.content[:200]!r}")
    return faults


def check_scope(rig: Rig, api: Api, scope: str, count: int) -> None:
    before, before_b = rows(rig), rows(rig, "b")

    faults = send_generated(api, scope, count)

    after = rows(rig)
    assert faults == []
    assert {name for name in after if after[name] != before[name]} - MAY_CHANGE[scope] == set()
    if scope.endswith("@a"):
        assert rows(rig, "b") == before_b


@pytest.mark.slow
@pytest.mark.parametrize("scope", OF_EACH_KIND)
def test_generated_requests_change_only_what_a_scope_may(tmp_path: Path, scope: str) -> None:
    with two_instances(tmp_path) as (rig, api):
        check_scope(rig, api, scope, FEW)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scope", MAY_CHANGE)
def test_many_generated_requests_change_no_more(tmp_path: Path, scope: str) -> None:
    with two_instances(tmp_path) as (rig, api):
        check_scope(rig, api, scope, MANY)
