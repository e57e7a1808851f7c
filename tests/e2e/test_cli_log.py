"""Every change leaves a row with the real user and its reason, and `sexton log` shows, filters and streams them."""

import json
import os
import pwd
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.check.model import FindingType
from sexton.interfaces.cli.main import root
from sexton.interfaces.cli.questions import QUESTIONS
from sexton.operations.registry import Operation, operations
from sexton.operators.call_log import CallRecord, CallStore
from sexton.replication.binlog.model import LogRetention
from sexton.replication.replicas.model import Copy, Placement, Tablet
from tests.e2e.conftest import Run, items
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, put
from tests.support.topics import map_regions

USER = pwd.getpwuid(os.getuid()).pw_name
SERVERS = {"up", "api", "console", "worker run", "after-restore", "contract test"}
"""Commands that start servers or a worker, take several logged steps, or race in an instance of their own."""
READS = {
    "deletions": "1",
    "doctor": "",
    "catalog": "shop",
    "ducklake status": "shop",
    "binlog journal": "",
    "undelete": "shop --vault disk --prefix data/ --yes",  # a directory keeps no versions: nothing is begun
}
"""Commands of no operation that change nothing of the deployment, with arguments."""
CHANGES = {
    "init": "",
    "ducklake attach": "shop",
    "ducklake detach": "shop",
    "protection register": "copy-7 disk/data/a.dat --owner ada",
    "protection selftest": "shop --yes",
}
"""The others. Some are refused here; that is logged, too."""
STARTS_A_ROUND = "protection selftest"


def example(operation: Operation) -> str:
    """Return the arguments in the example of an operation's help."""
    arguments = operation.about.partition(f"Example: sexton {operation.name}")[2].replace(" --watch", "")
    return arguments + (" --yes" if operation.name in QUESTIONS else "")


for o in operations().values():
    if o.is_for_people:
        (CHANGES if o.record.changes else READS)[o.name] = example(o)


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield " ".join(path)
        return
    for name, sub in commands.items():
        yield from leaves(sub, (*path, name))


@pytest.fixture
def filled(shop: Rig, tmp_path: Path) -> Rig:
    """Fill the database with what the examples name: a topic, a log, a backend; and a finding, and a file."""
    stores = shop.all_stores
    put(tmp_path / "v", "data/live.dat")
    map_regions(shop.db, "orders-wal", ())
    stores.binlogs.configs.put("shop", "sales", "", LogRetention(ttl_seconds=60))
    tablet = Tablet(tablet="10021", part="p1", copies=(Copy(backend="be-3", uid="u1"),))
    stores.binlogs.placements.place("shop", Placement(db="sales", table="orders", tablets=(tablet,)))
    run = stores.checks.begin("shop", "run")
    shop.sql("UPDATE {}binlog_log SET awaiting_seq = 1")
    finding = {"instance": "shop", "type": FindingType.ORPHAN, "vault": "disk", "key": "data/b.dat"}
    with shop.db.write() as c:
        values = {**finding, "state": "OPEN", "first_seen": 1, "confirmed_at": 1, "seen_in": run.id}
        c.execute(shop.db.t.finding.insert().values(**values))
    return shop


def test_each_command_is_in_exactly_one_table() -> None:
    listed = [*READS, *CHANGES, *SERVERS]
    commands = set(leaves(root()))

    assert commands - set(listed) == set(), "add them to READS, CHANGES or SERVERS above"
    assert set(listed) - commands == set(), "there are no such commands: remove them above"
    assert len(listed) == len(set(listed))


@pytest.mark.slow
def test_follow_streams_new_rows_until_ctrl_c(environment: dict[str, str], shop: Rig, tmp_path: Path) -> None:
    old, new = (stored(shop.calls, subject) for subject in ("old", "new"))
    follower = subprocess.Popen(
        [sys.executable, "-m", "sexton", "log", "--follow", "--json", "--since", str(old)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    stored(shop.calls, "newest")
    second = json.loads(follower.stdout.readline())
    follower.send_signal(signal.SIGINT)

    assert (first["id"], first["subject"], second["subject"]) == (new, "new", "newest")
    assert follower.wait(PATIENCE_SECONDS) == 130


def stored(calls: CallStore, subject: str) -> int:
    return calls.append(CallRecord(who="ada", source="test", action="stop", subject=subject))


def test_reason_and_instance_of_an_action_are_logged(offline: Run, shop: Rig) -> None:
    for words, action, instance in [
        ("enable shop", "enable", "shop"),
        ("start shop", "start", "shop"),
        ("apply 4711 --yes", "apply", ""),
        ("hold release 1", "hold release", "shop"),
        ("lists remove blacklist shop", "lists remove", "shop"),
        ("lists remove vaults shop/none", "lists remove", ""),
        ("vault cap nowhere disk 5", "vault cap", "nowhere"),
        ("schedules resume", "schedules resume", ""),
    ]:
        offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")

        offline(*shlex.split(words), "--reason", "ticket 4711")

        call = json.loads(offline("log", "--last", "1", "--json").stdout)["items"][0]
        assert (call["action"], call["instance"], call["reason"]) == (action, instance, "ticket 4711")


@pytest.mark.slow
def test_each_command_is_logged_if_it_changes_something(offline: Run, filled: Rig) -> None:
    newest = filled.calls.newest()
    for command, arguments in READS.items():
        ran = offline(*command.split(), *shlex.split(arguments), "--json")
        assert (ran.returncode != 64, filled.calls.rows(newest, 9)) == (True, []), command

    filled.registry.enable("shop")
    for command in sorted(CHANGES, key=STARTS_A_ROUND.__ne__):  # before a window is closed, and all is stopped
        logged = [(command, USER), ("round run", USER)] if command == STARTS_A_ROUND else [(command, USER)]
        before = filled.calls.newest()

        ran = offline(*command.split(), *shlex.split(CHANGES[command]), "--json")

        rows = filled.calls.rows(before, 99)
        assert [(row.action, row.who) for row in rows if row.begun_id is None] == logged, ran.stderr
        assert rows[-1].outcome != "asked", command
        assert rows[0].source.startswith("cli@")


def test_log_shows_filters_and_streams_who_did_what(offline: Run, shop: Rig) -> None:
    offline("stop", "shop", "--reason", "x", SUDO_USER="ada")
    offline("start", "shop", LOGNAME="mallory", USER="mallory", USERNAME="mallory", SUDO_USER="")

    rows = [json.loads(line) for line in offline("log", "--json", "--since", "0").stdout.splitlines()]
    later = [json.loads(line) for line in offline("log", "--json", "--since", "3").stdout.splitlines()]
    by_ada = items(offline("log", "--who", "by ada", "--json"))
    streamed = offline("log", "--who", "by ada", "--since", "0", "--json").stdout.splitlines()
    nobody = offline("log", "--who", "100%").stdout
    lists = [json.loads(offline("log", "--last", last, "--json").stdout) for last in ("1", "2")]

    ada = f"{USER} (sudo by ada)"
    assert [(r["id"], r["who"], r["action"], r["outcome"], r["begun_id"]) for r in rows] == [
        (1, ada, "stop", "asked", None),
        (2, ada, "stop", "ok", 1),
        (3, USER, "start", "asked", None),
        (4, USER, "start", "ok", 3),
    ]
    assert later == rows[3:]
    assert [call["action"] for call in by_ada] == ["stop"]
    assert {json.loads(line)["action"] for line in streamed} == {"stop"}
    assert "no action" in nobody
    assert [(len(found["items"]), found["more"]) for found in lists] == [(1, True), (2, False)]
