"""The `sexton` command: `init`, `status`, vaults that are ahead, lost objects, and the clock of a trial."""

import json
from pathlib import Path

import pytest

from tests.e2e.conftest import Run, items
from tests.support.rig import Rig, put


def test_status_and_why_need_no_temporal(offline: Run, shop: Rig) -> None:
    status = offline("status")
    story = offline("why", "t1")
    apply = offline("round", "run", "shop")

    assert status.returncode == 0
    assert "shop: observe" in status.stdout
    assert offline("status", "shop").stdout == status.stdout
    assert "unknown instance nosuch" in offline("status", "nosuch").stderr
    assert (story.returncode, "due" in story.stdout) == (0, True)
    assert (apply.returncode, "cannot reach Temporal at 127.0.0.1:1" in apply.stderr) == (1, True)


def test_status_distinguishes_running_and_interrupted_rounds(offline: Run, shop: Rig) -> None:
    shop.registry.enable("shop")
    waits = json.loads(offline("status", "--json").stdout)
    shop.rounds.open("shop", "run-1", None, shop.policy)

    runs = offline("status")
    shop.later(61)
    cut_off = offline("status")

    [instance] = waits["instances"]
    assert (waits["slots_used"], waits["slots"]) == (0, 16)
    assert (instance["running"], instance["failures"]) == (None, 0)
    assert instance["next_round_at"] <= instance["now_at"]
    assert "1 of 16 slots" in runs.stdout
    assert "shop: enabled, round 1 is running since" in runs.stdout
    assert "UTC" in runs.stdout
    assert "0 of 16 slots" in cut_off.stdout
    assert "round 1 lost its lease: no worker has it" in cut_off.stdout


def test_vault_ahead_of_its_database_is_trusted_on_command(offline: Run, shop: Rig, tmp_path: Path) -> None:
    marker = tmp_path / "v" / "_sexton" / "vault.json"
    marker.write_text(json.dumps(json.loads(marker.read_text()) | {"round": 99, "run": "of a newer copy"}))

    behind = offline("vault", "list", "shop", "--json")
    unanswered = offline("vault", "trust", "shop", "disk", "--reason", "a restore")
    still = offline("vault", "list", "shop", "--json")
    trusted = offline("vault", "trust", "shop", "disk", "--reason", "a restore", "--yes")
    after = offline("vault", "list", "shop", "--json")

    assert [ran.returncode for ran in (behind, unanswered, still, trusted, after)] == [1, 1, 1, 0, 0]
    assert [items(listed)[0]["proof"][:6] for listed in (behind, still)] == ["BEHIND"] * 2
    assert items(after)[0]["proof"] == "ours"


@pytest.mark.slow
def test_contract_test_races_and_leaves_nothing_behind(offline: Run, shop: Rig) -> None:
    raced = offline("contract", "test", "--marks", "400")

    assert raced.returncode == 0, raced.stdout + raced.stderr
    assert "committed and claimed: 0" in raced.stdout
    assert [shop.count(t) for t in ("instance", "mark", "mark_history", "round", "batch")] == [1, 1, 0, 0, 0]


LIVE_PREFIX = (
    "CREATE VIEW public.sexton_live AS SELECT 'rowset' AS kind, 'r1' AS id, 'disk' AS vault, 'live/' AS \"key\", "
    "'shop' AS instance"
)


@pytest.mark.slow
def test_n3_confirmed_loss_ends_the_command_with_code_4(online: Run, shop: Rig, tmp_path: Path, worker: None) -> None:
    shop.sql(LIVE_PREFIX)
    shop.registry.set_live_view("shop", "public.sexton_live")
    put(tmp_path / "v", "live/0.dat")

    young = online("check", "run", "shop")
    (tmp_path / "v" / "live/0.dat").unlink()
    lost = online("check", "run", "shop")
    told = online("why", "live/")
    shop.sql("DROP VIEW public.sexton_live")
    partial = online("check", "run", "shop")

    assert (young.returncode, lost.returncode, partial.returncode) == (0, 4, 3)
    assert "nothing open: no object was old enough to be judged" in young.stdout
    assert "inside a prefix cannot be detected" in young.stdout
    assert "a record names the object, and it does not exist" in lost.stdout
    assert "LOST, confirmed: live/ in vault disk: a record names the object, and it does not exist" in told.stdout


def test_init_prints_a_deployment_once_and_adopts_no_copy(offline: Run) -> None:
    no_schema, no_deployment = offline("status"), offline("status", SEXTON_DEPLOYMENT="")
    first, second = (offline("init", SEXTON_DEPLOYMENT="") for _ in "12")
    other = offline("init")
    printed = offline("init", "--print-sql", "--grant-to", "shop_app")

    assert (no_schema.returncode, "run: sexton init" in no_schema.stderr) == (1, True)
    assert (no_deployment.returncode, "sexton init" in no_deployment.stderr) == (1, True)
    assert (first.returncode, "SEXTON_DEPLOYMENT=sexton-" in first.stdout) == (0, True)
    assert (second.returncode, "belongs to deployment sexton-" in second.stderr) == (1, True)
    assert (other.returncode, "belongs to deployment sexton-" in other.stderr) == (1, True)
    assert (printed.returncode, "CREATE TABLE sexton.mark" in printed.stdout) == (0, True)
    assert printed.stdout.strip().splitlines()[-1].endswith(') TO "shop_app";')


def test_trial_advances_the_clock_by_four_days(offline: Run, shop: Rig) -> None:
    clock = []
    for words in (("status",), ("trial", "advance", "4d")):
        advanced = offline(*words)
        with shop.db.read() as c:
            clock.append(shop.db.now(c))

    assert (advanced.returncode, "sexton plan" in advanced.stdout) == (0, True)
    assert clock[1] - clock[0] >= 4 * 86_400_000
