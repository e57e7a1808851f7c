"""Reasons are recorded and not lost, the log is filtered by caller, and refusals say what to do."""

import json
import shlex

import pytest

from sexton.database.engine import Database
from tests.e2e.conftest import Run


@pytest.mark.parametrize(
    ("words", "action", "instance"),
    [
        ("enable shop", "enable", "shop"),
        ("start shop", "start", "shop"),
        ("apply 4711 --yes", "apply", ""),
        ("hold release 1", "hold release", "shop"),
        ("lists remove blacklist shop", "lists remove", "shop"),
        ("lists remove vaults shop/none", "lists remove", ""),
        ("vault cap nowhere disk 5", "vault cap", "nowhere"),
        ("schedules resume", "schedules resume", ""),
    ],
)
def test_reason_and_instance_of_an_action_are_logged(
    offline: Run, shop: Database, words: str, action: str, instance: str
) -> None:
    offline("hold", "add", "shop", "--for", "1h", "--reason", "audit")

    offline(*shlex.split(words), "--reason", "ticket 4711")

    call = json.loads(offline("log", "--last", "1", "--json").stdout)["items"][0]
    assert (call["action"], call["instance"], call["reason"]) == (action, instance, "ticket 4711")


def test_second_stop_names_the_first_reason(offline: Run, shop: Database) -> None:
    first = offline("stop", "shop", "--reason", "restoring a backup")
    second = offline("stop", "shop", "--reason", "another drill")
    [shown] = [b for b in json.loads(offline("blockers", "shop", "--json").stdout)["items"] if b["held_by"] == "stop"]

    assert "already" not in first.stdout
    assert "it was stopped already, since" in second.stdout
    assert "restoring a backup" in second.stdout
    assert "restoring a backup" in shown["why"]
    assert "another drill" in shown["why"]


def test_log_is_filtered_by_caller(offline: Run, shop: Database) -> None:
    offline("stop", "shop", "--reason", "x", SUDO_USER="ada")
    offline("start", "shop")

    by_ada = json.loads(offline("log", "--who", "by ada", "--json").stdout)["items"]
    streamed = offline("log", "--who", "by ada", "--since", "0", "--json").stdout.splitlines()
    nobody = offline("log", "--who", "100%").stdout

    assert [call["action"] for call in by_ada] == ["stop"]
    assert [json.loads(line)["action"] for line in streamed][:1] == ["stop"]
    assert "start" not in "".join(streamed)
    assert "no action" in nobody


def test_log_says_when_there_are_more_rows(offline: Run, shop: Database) -> None:
    for _ in range(2):
        offline("start", "shop")

    lists = [json.loads(offline("log", "--last", last, "--json").stdout) for last in ("1", "2")]

    assert [(len(found["items"]), found["more"]) for found in lists] == [(1, True), (2, False)]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("lists", "add", "nolist", "x"), 64, "'LIST': 'nolist' is not one of 'blacklist'"),
        (("why", ""), 64, "KEY|ID is empty"),
        (("why", " "), 64, "the name is empty; write an object's key, its URL, or a mark's id"),
        (("why", "s3://other/x"), 1, "no vault contains s3://other/x; see: sexton vault list"),
        (("why", "s3://other/x", "--instance", "shop"), 1, "no vault of shop contains s3://other/x"),
        (("why", "no/such/key"), 1, "nothing is known of no/such/key"),
        (("plan", "show", "9"), 1, "there is no plan 9; see: sexton plan list"),
        (("marks", "list", "shop", "--state", "GONE"), 64, "'GONE' is not one of 'WAITING'"),
        (("marks", "list", "--parent", "t1"), 64, "write KIND/ID"),
        (("marks", "list", "--after", "x"), 1, "is no place in this list"),
    ],
)
def test_refusal_says_what_to_do(offline: Run, shop: Database, words: tuple[str, ...], code: int, says: str) -> None:
    refused = offline(*words)

    assert (refused.returncode, says in refused.stderr, "Value error" in refused.stderr) == (code, True, False)
    assert refused.stdout == ""


@pytest.mark.parametrize(
    "words",
    [
        ("enable",),
        ("hold", "add", "--for", "1h", "--reason", "x"),
        ("plan", "list"),
        ("marks", "list"),
        ("binlog", "list"),
        ("binlog", "journal"),
        ("replica", "list"),
        ("wal", "list"),
    ],
)
def test_only_instance_need_not_be_named(offline: Run, shop: Database, words: tuple[str, ...]) -> None:
    named = offline(*words, "shop")
    alone = offline(*words)

    assert [(ran.returncode, ran.stderr) for ran in (named, alone)] == [(0, ""), (0, "")]
