"""A sweep that is killed at random while the node writes is finished by the next one."""

import random
import time
from pathlib import Path

import pytest

from tests.integration.replication.agent.node import Node
from tests.servers.forked import Forked

SECONDS = 60.0
UIDS = ("a", "b", "c")
CUT = 300


def _sweeping(node: Node, n: int) -> Forked:
    directory = node.directory
    return Forked(f"sweep-{n}", "tests.fault.backend_sweeping", [str(directory), str(CUT), *UIDS], directory.parent, {})


def _left(node: Node) -> int:
    return sum(len(node.files(uid)) for uid in UIDS)


@pytest.mark.parametrize("seed", [*range(1, 7), *(pytest.param(n, marks=pytest.mark.soak) for n in range(7, 60))])
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
        dying, beside = _sweeping(node, 2 * lives), _sweeping(node, 2 * lives + 1)
        before, target, over = _left(node), chance.randint(1, 300), time.monotonic() + SECONDS
        for process in (dying, beside)[: 1 + lives % 2]:
            process.start(lambda: True, SECONDS)
        while _left(node) > before - target and dying.exit_code() is None:
            assert time.monotonic() < over
        for process in (dying, beside):
            assert process.exit_code() in (None, 0), process.tail(9)
            process.kill()
            killed += process.exit_code() == -9
        for uid in UIDS:  # the node goes on
            node.binlog(uid, newer)
            rowsets = {f"r{version}" for version in node.versions(uid)}
            assert {file.split("_")[0] for file in node.files(uid)} <= rowsets
        newer += 1

    assert killed
    for uid in UIDS:
        assert node.versions(uid) == list(range(CUT + 1, newer))
        assert len(node.files(uid)) == 2 * 4 + newer - (CUT + 5)
