"""The next sweep finishes after a crash between any two steps."""

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sexton.kernel.crash_points import OF_BACKEND, installed
from sexton.replication.agent.sweeping import Removal
from tests.integration.replication.agent.node import CutSource, Node
from tests.support.crashes import Crash, crash_at


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("point", sorted(OF_BACKEND))
def test_b11_the_next_sweep_finishes_after_any_crash(node: Node, point: str, times: int) -> None:
    node.granted = CutSource(page=1)
    for uid in "abc":
        node.tablet(uid)
        for version in range(6):
            node.binlog(uid, version, segments=2)
        node.granted.grant(uid, 3)

    with installed(crash_at(point, times)), pytest.raises(Crash):
        node.sweep(keys=3)
    for uid in "abc":  # files before keys: no file is ever left that no key names
        assert {name.split("_")[0] for name in node.files(uid)} <= {f"r{version}" for version in node.versions(uid)}
        assert {4, 5} <= set(node.versions(uid))
    node.sweep(keys=3)

    assert [node.versions(uid) for uid in "abc"] == [[4, 5]] * 3
    assert [node.files(uid) for uid in "abc"] == [["r4_0.dat", "r4_1.dat", "r5_0.dat", "r5_1.dat"]] * 3
    assert node.granted.outcomes() == dict.fromkeys("abc", ("done", 3))
    assert node.granted.cuts == {}


@pytest.mark.parametrize("beats", range(1, 12))
def test_b11_the_next_sweep_finishes_a_crash_between_files(
    node: Node, beats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sexton.replication.agent.sweeping.PAGE_FILES", 1)
    node.tablet("a")
    for version in range(5):
        node.binlog("a", version, segments=2)
    node.granted.grant("a", 3)
    left = beats

    def heartbeat() -> None:
        nonlocal left
        left -= 1
        if not left:
            raise Crash

    with pytest.raises(Crash):
        node.sweeper(keys=2).sweep(heartbeat)
    assert set(node.versions("a")) >= {4}
    node.sweep(keys=2)

    assert (node.versions("a"), node.files("a")) == ([4], ["r4_0.dat", "r4_1.dat"])


tablets = st.dictionaries(
    st.sampled_from(["a", "a-", "a.b", "A", "1", "12", "ab"]),
    st.tuples(
        st.dictionaries(st.integers(0, 25), st.tuples(st.integers(0, 3), st.sampled_from("     -m"))),
        st.integers(0, 25),
    ),
    max_size=5,
)


@settings(max_examples=60, deadline=None)
@given(tablets, st.integers(1, 8), st.integers(0, 2**32), st.sampled_from(["", *sorted(OF_BACKEND)]))
def test_a_sweep_removes_all_up_to_the_cut_and_nothing_above(
    tmp_path_factory: pytest.TempPathFactory, world: dict, keys: int, seed: int, point: str
) -> None:
    """Of each version: its segments, and whether it is damaged (``m``), or its files are gone already (``-``)."""
    place = tmp_path_factory.mktemp("node")
    node, chance = Node(place), random.Random(seed)
    node.granted = CutSource(page=chance.randint(1, 3))
    for uid, (binlogs, cut) in world.items():
        folder = node.tablet(uid)
        for version, (segments, state) in binlogs.items():
            node.binlog(uid, version, segments, **({"num_segments": None} if state == "m" else {}))
            if state == "-":
                for n in range(segments):
                    (folder / f"r{version}_{n}.dat").unlink()
        node.granted.grant(uid, cut)

    try:
        with installed(crash_at(point, chance.randint(1, 4))):
            node.sweep(keys)
    except Crash:
        node.sweep(keys)

    for uid, (binlogs, cut) in world.items():
        damaged = [v for v, (_, state) in binlogs.items() if v <= cut and state == "m"]
        stay = sorted(v for v, (_, state) in binlogs.items() if v > cut or state == "m")
        files = [f"r{v}_{n}.dat" for v in stay for n in range(binlogs[v][0]) if binlogs[v][1] != "-"]
        assert (node.versions(uid), node.files(uid)) == (stay, sorted(files))
        told = ("quarantined", min(damaged) - 1) if damaged else ("done", cut)
        assert node.granted.outcomes()[uid] == told
    shutil.rmtree(place)


def test_an_acknowledgement_is_true_by_itself(node: Node, tmp_path: Path) -> None:
    node.tablet("a")
    node.binlog("a", 3)
    node.granted.grant("a", 7)

    removal = Removal(node.meta, node.granted.cuts["a"], lambda: None)
    answer = removal.run()

    assert (answer.outcome, answer.version, removal.counts().files) == ("done", 7, 1)
