"""Scopes are parsed, and decided about, without a database."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.operators.access import policy
from sexton.operators.access.model import EVERY_INSTANCE, Forbidden, Grant

COMPLETE: tuple[str, ...] = ("read", "read@a", "owner@a", "owner@*", "operate@a", "operate@*", "admin")
COMPLETE += ("sync:copy@a", "node:n7@a", "node:n7@*")
UNKNOWN: tuple[str, ...] = (
    "",
    "root",
    "Read",
    "read:x",
    "read@",
    "read@A",
    "read@a@b",
    "read@**",
    "admin@a",
    "admin@*",
)
UNKNOWN += ("sync", "sync@a", "sync:@a", "node:@a", "sync:a b@a", "sync:a:b@a", "operate:x@a", "operate@a\n")


def permits(scope: str, required: Grant, instance: str, *, job: str | None = None, node: str | None = None) -> bool:
    try:
        policy.check([policy.scope(scope)], required, instance, job=job, node=node)
    except Forbidden:
        return False
    return True


def test_a_complete_scope_is_read_back_as_written() -> None:
    assert [str(policy.scope(text)) for text in COMPLETE] == list(COMPLETE)
    assert policy.scope("read@*") == policy.scope("read")


def test_an_unknown_scope_is_refused() -> None:
    for text in UNKNOWN:
        with pytest.raises(BadInput, match="is no scope; write read, read@I, owner@I"):
            policy.scope(text)


def test_a_scope_without_instance_says_what_to_write() -> None:
    for text in ("owner", "operate", "node:n7"):
        with pytest.raises(BadInput) as caught:
            policy.scope(text)
        wanted = f"names no instance; write {text}@INSTANCE, or {text}@* for every instance"
        assert str(caught.value) == f"scope {text!r} {wanted}"
    for text in ("sync:copy", "sync:copy@*"):  # a job's names one instance
        with pytest.raises(BadInput, match=r"write sync:copy@INSTANCE$"):
            policy.scope(text)


def test_grants_include_those_below_in_their_instance() -> None:
    ladder = ["read", "owner", "operate", "admin"]
    for rung, required in enumerate((Grant.READ, Grant.OWNER, Grant.OPERATE, Grant.ADMIN)):
        of_a, of_b = (
            [grant for grant in ladder if permits(grant if grant == "admin" else f"{grant}@{i}", required, "a")]
            for i in "ab"
        )
        assert (of_a, of_b) == (ladder[rung:], ["admin"])


def test_a_scope_of_one_instance_never_covers_all() -> None:
    for scope in ("read@a", "owner@a", "operate@a", "sync:copy@a", "node:n7@a"):
        assert not permits(scope, Grant.READ, EVERY_INSTANCE, job="copy", node="n7")
        assert permits(scope, Grant.READ, "a", job="copy", node="n7")


def test_a_job_is_admitted_to_itself_and_its_runs_alone() -> None:
    jobs = ("copy", "copy:1", "copy2", "cop", "other:copy")

    assert [job for job in jobs if permits("sync:copy@a", Grant.ADMIN, "a", job=job)] == ["copy", "copy:1"]
    assert not permits("sync:copy@a", Grant.READ, "a")
    assert not permits("sync:copy@b", Grant.READ, "a", job="copy")
    assert not permits("sync:copy@a", Grant.READ, "a", node="copy")


def test_a_node_is_admitted_to_itself_alone() -> None:
    assert [node for node in ("n7", "n", "n77", "") if permits("node:n7@a", Grant.OPERATE, "a", node=node)] == ["n7"]
    assert permits("node:n7@*", Grant.OPERATE, "a", node="n7")
    assert not permits("node:n7@a", Grant.READ, "a")
    assert not permits("node:n7@a", Grant.READ, "a", job="n7")


def test_a_refusal_does_not_name_the_instance() -> None:
    with pytest.raises(Forbidden) as caught:
        policy.check([policy.scope("operate@shop")], Grant.READ, "hidden")

    assert "hidden" not in str(caught.value)
    assert "operate@shop" in str(caught.value)


def test_only_registered_jobs_are_admitted_to_a_log() -> None:
    job, reader = policy.scope("sync:copy@a"), policy.scope("read@a")
    policy.check_log([job], Grant.READ, "a", ["copy", "copy:1"])
    policy.check_log([reader], Grant.READ, "a", [])
    policy.check_log([job, reader], Grant.READ, "a", [])

    for consumers in ([], ["copy2", "cop"], ["copy:1"]):
        for scopes, grant in (([job], Grant.READ), ([job, reader], Grant.OPERATE)):
            with pytest.raises(Forbidden, match="PUT /v1/consumers/copy"):
                policy.check_log(scopes, grant, "a", consumers)


def test_several_scopes_permit_what_each_of_them_permits() -> None:
    scopes = [policy.scope(text) for text in ("read@a", "operate@b", "sync:copy@a")]
    policy.check(scopes, Grant.OPERATE, "b")
    policy.check(scopes, Grant.READ, "a")
    policy.check(scopes, Grant.OPERATE, "a", job="copy:1")

    for grant, instance, job in ((Grant.OPERATE, "a", None), (Grant.READ, "*", None), (Grant.OPERATE, "a", "other")):
        with pytest.raises(Forbidden, match="read@a, operate@b, sync:copy@a"):
            policy.check(scopes, grant, instance, job=job)
