"""Every command that changes something leaves a row with the real user, and `sexton log` shows and streams it."""

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
import typer
from sqlalchemy import update

from sexton.check.model import FindingType
from sexton.database.engine import Database
from sexton.interfaces.cli.main import app
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore
from sexton.replication.binlog.model import LogRetention
from sexton.replication.replicas.model import Copy, Placement, Tablet
from sexton.wal.sql.rows import ensure_topic
from tests.e2e.conftest import Run
from tests.support.rig import stores_of

USER = pwd.getpwuid(os.getuid()).pw_name
READ_ONLY = {
    "status": "",
    "why": "t1",
    "deletions": "1",
    "plan list": "",
    "plan show": "1",
    "plan marks": "1",
    "marks list": "shop",
    "hold list": "",
    "ducklake status": "shop",
    "log": "",
    "blockers": "",
    "doctor": "",
    "instance list": "",
    "owner list": "",
    "catalog": "shop",
    "vault list": "",
    "round list": "",
    "round show": "1",
    "check list": "",
    "check show": "1",
    "check findings": "shop",
    "check progress": "shop",
    "schedules list": "",
    "lists show": "",
    "quarantine list": "",
    "protection list": "",
    "wal list": "",
    "wal explain": "orders",
    "wal purges": "orders",
    "wal progress": "orders",
    "wal round progress": "",
    "binlog list": "",
    "binlog explain": "sales",
    "binlog consumers": "",
    "binlog progress": "",
    "binlog journal": "",
    "binlog followers": "",
    "replica list": "",
    "replica explain": "t1",
    "replica backends": "",
    "token list": "",
    "settings show": "",
    "settings preview": "recycle.retention_seconds=86400",
    "worker builds": "",
}
"""Commands that change nothing of the deployment, with arguments."""
SERVERS = {"up", "api", "console", "worker run", "after-restore", "contract test"}
"""Commands that start servers or a worker, take several logged steps, or race in an instance of their own."""
CHANGES = {
    "init": ("", "init"),
    "plan new": ("shop", "plan"),
    "plan reject": ("1 --reason x", "plan reject"),
    "apply": ("1 --yes", "apply"),
    "enable": ("shop", "enable"),
    "ducklake attach": ("shop", "ducklake attach"),
    "ducklake detach": ("shop", "ducklake detach"),
    "undelete": ("shop --vault disk --prefix data/ --yes", "undelete"),
    "stop": ("shop --reason x", "stop"),
    "start": ("shop", "start"),
    "pace": ("disk 5/s", "pace"),
    "instance add": ("more", "instance add"),
    "instance keys": ("shop data/.*", "instance keys"),
    "instance live-view": ("shop none", "instance live-view"),
    "instance grant": ("shop app", "instance grant"),
    "instance revoke": ("shop app", "instance revoke"),
    "instance observe": ("shop", "observe"),
    "vault add": ("shop more --local /nowhere", "vault add"),
    "vault trust": ("shop disk --yes", "vault trust"),
    "vault probe": ("shop disk", "vault probe"),
    "round run": ("shop", "round run"),
    "round cancel": ("shop", "round cancel"),
    "round pause": ("shop", "round pause"),
    "round resume": ("shop", "round resume"),
    "round retry": ("shop", "round retry"),
    "check run": ("shop", "check run"),
    "check cancel": ("shop", "check cancel"),
    "check pause": ("shop", "check pause"),
    "check resume": ("shop", "check resume"),
    "check retry": ("shop", "check retry"),
    "check accept": ("1 --reason x", "check accept"),
    "check rebase": ("shop --reason x", "check rebase"),
    "check repair": ("shop --orphans --yes", "check repair orphans"),
    "worker promote": ("9.9", "worker promote"),
    "schedules apply": ("", "schedules apply"),
    "schedules pause": ("--reason x", "schedules pause"),
    "schedules resume": ("", "schedules resume"),
    "hold add instance": ("shop --for 1h --reason x", "hold"),
    "hold add table": ("12 --for 1h --reason x", "hold"),
    "hold add mark": ("dropped/t1 --for 1h --reason x", "hold"),
    "hold add vault-prefix": ("disk/data/ --for 1h --reason x", "hold"),
    "hold release": ("1", "hold release"),
    "lists add": ("blacklist shop", "lists add blacklist"),
    "lists remove": ("blacklist shop", "lists remove blacklist"),
    "quarantine retry": ("shop --all", "quarantine retry"),
    "quarantine discard": ("shop dropped/t1 --reason x --yes", "quarantine discard"),
    "protection register": ("copy disk/data/a.dat --owner ada", "register"),
    "protection renew": ("copy", "renew"),
    "protection finish": ("copy", "finish"),
    "protection release": ("copy --reason x", "release"),
    "protection watermark": ("shop 7", "watermark"),
    "protection selftest": ("shop --yes", "protection selftest"),
    "wal round run": ("", "wal round run"),
    "wal round cancel": ("", "wal round cancel"),
    "wal round pause": ("", "wal round pause"),
    "wal round resume": ("", "wal round resume"),
    "wal round retry": ("", "wal round retry"),
    "wal enable": ("orders", "wal enable"),
    "wal assign": ("orders shop --reason x --yes", "wal assign"),
    "wal disable": ("orders", "wal disable"),
    "wal reset": ("orders --reason x --yes", "wal reset"),
    "wal restored": ("--reason x", "wal restored"),
    "wal purge": ("orders", "wal purge"),
    "wal now": ("orders", "wal purge_now"),
    "wal cancel": ("orders", "wal cancel"),
    "wal pause": ("orders", "wal pause"),
    "wal resume": ("orders", "wal resume"),
    "wal retry": ("orders", "wal retry"),
    "binlog set": ("other --ttl 7d", "binlog set"),
    "binlog disable": ("sales", "binlog disable"),
    "binlog approve": ("sales --yes", "binlog approve"),
    "binlog drop": ("sales --yes", "binlog drop"),
    "binlog remove-consumer": ("copy sales", "binlog remove-consumer"),
    "binlog gc": ("", "binlog gc"),
    "binlog cancel": ("", "binlog cancel"),
    "binlog pause": ("", "binlog pause"),
    "binlog resume": ("", "binlog resume"),
    "binlog retry": ("", "binlog retry"),
    "binlog remove-follower": ("fe-1", "binlog remove-follower"),
    "replica full-copy": ("t1 be-1 --reason x", "replica full-copy"),
    "replica decommission": ("be-1 --yes", "replica decommission"),
    "token create": ("--scope read", "token create"),
    "token renew": ("0123456789ab", "token renew"),
    "token revoke": ("0123456789ab", "token revoke"),
    "trial advance": ("1h", "trial advance"),
    "settings set": ("recycle.retention_seconds 864000", "settings set"),
    "settings unset": ("recycle.retention_seconds", "settings unset"),
}
"""Each other command with arguments, and the action of its row. Some are refused here; that is logged, too."""
NEEDS_ENABLED = {"apply", "protection selftest"}
"""Commands that are refused before anything is recorded if the instance only observes."""


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield " ".join(path)
        return
    for name, sub in commands.items():
        yield from leaves(sub, (*path, name))


@pytest.fixture
def filled(shop: Database) -> Database:
    """Fill the database with what the commands name: a topic, a log, a backend, a finding, a hold, a plan."""
    stores = stores_of(shop)
    with shop.write() as c:
        ensure_topic(shop, c, "orders", "shop")
    stores.binlogs.configs.put("shop", "sales", "", LogRetention(ttl_seconds=60))
    tablet = Tablet(tablet="t1", part="p1", copies=(Copy(backend="be-1", uid="u1"),))
    stores.binlogs.placements.place("shop", Placement(db="sales", table="orders", tablets=(tablet,)))
    run = stores.checks.begin("shop", "run")
    t = shop.t
    with shop.write() as c:
        c.execute(update(t.binlog_log).values(awaiting_seq=1))
        finding = {"instance": "shop", "type": FindingType.ORPHAN, "vault": "disk", "key": "data/b.dat"}
        c.execute(t.finding.insert().values(**finding, state="OPEN", first_seen=1, confirmed_at=1, seen_in=run.id))
    return shop


def test_each_command_is_in_exactly_one_table() -> None:
    listed = [*READ_ONLY, *CHANGES, *SERVERS]
    commands = set(leaves(typer.main.get_command(app)))

    assert commands - set(listed) == set(), "add them to READ_ONLY, CHANGES or SERVERS above"
    assert set(listed) - commands == set(), "there are no such commands: remove them above"
    assert len(listed) == len(set(listed))


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(CHANGES))
def test_each_command_that_changes_something_is_logged(command: str, offline: Run, filled: Database) -> None:
    arguments, action = CHANGES[command]
    if command in NEEDS_ENABLED:
        stores_of(filled).registry.enable("shop")
    before = CallStore(filled).newest()

    ran = offline(*command.split(), *shlex.split(arguments), "--json")

    rows = CallStore(filled).rows(before, 99)
    assert [(row.action, row.who) for row in rows if row.begun_id is None] == [(action, USER)], ran.stderr
    assert rows[-1].outcome != "asked"
    assert rows[0].source.startswith("cli@")


@pytest.mark.slow
def test_commands_that_only_read_leave_no_row(offline: Run, filled: Database) -> None:
    before = CallStore(filled).newest()
    for command, arguments in READ_ONLY.items():
        offline(*command.split(), *shlex.split(arguments), "--json")
        assert CallStore(filled).rows(before, 9) == [], command


def test_the_user_is_the_process_owner_not_a_variable(offline: Run, shop: Database) -> None:
    offline("enable", "shop", LOGNAME="mallory", USER="mallory", USERNAME="mallory", SUDO_USER="")
    offline("stop", "shop", "--reason", "x", SUDO_USER="ada")

    assert [c.who for c in CallStore(shop).last(9)] == [f"{USER} (sudo by ada)", USER]


def test_log_after_prints_stored_rows_as_lines(offline: Run, shop: Database) -> None:
    offline("stop", "shop", "--reason", "x")
    offline("start", "shop")

    rows = [json.loads(line) for line in offline("log", "--json", "--after", "0").stdout.splitlines()]
    later = [json.loads(line) for line in offline("log", "--json", "--after", "3").stdout.splitlines()]

    assert [(r["id"], r["action"], r["outcome"], r["begun_id"]) for r in rows] == [
        (1, "stop", "asked", None),
        (2, "stop", "ok", 1),
        (3, "start", "asked", None),
        (4, "start", "ok", 3),
    ]
    assert later == rows[3:]


def test_streaming_options_of_log_need_json(offline: Run, shop: Database) -> None:
    codes = [offline("log", *words.split()).returncode for words in ("--follow", "--after 3")]

    assert codes == [64, 64]


def test_follow_streams_new_rows_until_ctrl_c(environment: dict[str, str], shop: Database, tmp_path: Path) -> None:
    calls = CallStore(shop)
    old, new = (stored(calls, subject) for subject in ("old", "new"))
    follower = subprocess.Popen(
        [sys.executable, "-m", "sexton", "log", "--follow", "--json", "--after", str(old)],
        env=environment,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    first = json.loads(follower.stdout.readline())
    stored(calls, "newest")
    second = json.loads(follower.stdout.readline())
    follower.send_signal(signal.SIGINT)

    assert (first["id"], first["subject"], second["subject"]) == (new, "new", "newest")
    assert follower.wait(30) == 130


def stored(calls: CallStore, subject: str) -> int:
    return calls.append(CallRecord(who="ada", source="test", action="stop", subject=subject))
