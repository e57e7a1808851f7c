"""A sweep that is killed at random while the node writes is finished by the next one."""

import random
from pathlib import Path

import pytest

from tests.integration.replication.agent.node import Node
from tests.servers.forked import Forked
from tests.support.eventually import eventually

UIDS = ("a", "b", "c")
CUT = 300


def _sweeping(node: Node, n: int, visits: int) -> Forked:
    """Return a process that sweeps; it dies at a visit, unless it has finished before."""
    arguments = [str(node.directory), str(CUT), str(visits), *UIDS]
    return Forked(f"sweep-{n}", "tests.fault.backend_sweeping", arguments, node.directory.parent, {})


@pytest.mark.parametrize("seed", [*range(1, 5), *(pytest.param(n, marks=pytest.mark.soak) for n in range(5, 60))])
def test_b11_next_sweeper_finishes_after_a_random_kill(tmp_path: Path, seed: int) -> None:
    node, chance, lives = Node(tmp_path / "node"), random.Random(seed), 0
    killed = 0
    for uid in UIDS:
        node.tablet(uid)
        for version in range(CUT + 5):
            node.binlog(uid, version, segments=2)
    newer = CUT + 5
    while any(version <= CUT for uid in UIDS for version in node.versions(uid)):
        lives += 1
        dying, beside = _sweeping(node, 2 * lives, chance.randint(1, 300)), _sweeping(node, 2 * lives + 1, 0)
        for process in (dying, beside)[: 2 - lives % 2]:  # the first one alone, so that it does not end before it dies
            process.start(lambda: True)
        eventually("a sweeper has died or finished", lambda p=dying: p.exit_code() is not None)
        for process in (dying, beside):
            assert process.exit_code() in (None, 0, -9), process.tail(9)
            process.kill()
        killed += dying.exit_code() == -9
        for uid in UIDS:  # the node goes on
            node.binlog(uid, newer)
            rowsets = {f"r{version}" for version in node.versions(uid)}
            assert {file.split("_")[0] for file in node.files(uid)} <= rowsets
        newer += 1

    assert killed
    for uid in UIDS:
        assert node.versions(uid) == list(range(CUT + 1, newer))
        assert len(node.files(uid)) == 2 * 4 + newer - (CUT + 5)
