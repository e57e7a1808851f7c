"""The worker pulls and acknowledges cuts over HTTP, and survives bad answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.kernel.trust import PlainHttp, Trust
from sexton.replication.agent.http import HttpCuts
from sexton.replication.agent.model import CutDone, GrantedCut, SweepOutcome
from sexton.replication.errors import ApiRefused, ApiSilent
from tests.integration.replication.agent.conftest import TOKEN, Api
from tests.servers.certificate import certificate
from tests.servers.proxy import tls_proxy


@pytest.fixture
def cuts(api: Api) -> Iterator[HttpCuts]:
    its = HttpCuts(f"{api.url}/", TOKEN, "7", "shop", wait=lambda _: None)
    yield its
    its.close()


def test_a_page_of_cuts_is_requested_and_read(api: Api, cuts: HttpCuts) -> None:
    api.answers = [{"cuts": [{"uid": "a-1", "tablet": 10, "version": 69, "new": 1}], "next": "a-1"}]

    page = cuts.page("Z&x")

    assert page == ([GrantedCut(uid="a-1", tablet="10", version=69)], "a-1", [])
    asked = {"instance": ["shop"], "after": ["Z&x"], "limit": ["500"], "queue": ["true"]}
    assert api.asked == [("GET", "/v1/nodes/7/cuts", asked, None, f"Bearer {TOKEN}")]


def test_removed_versions_are_acknowledged(api: Api, cuts: HttpCuts) -> None:
    api.answers = [{"taken": 1, "ignored": 1}]

    cuts.acknowledge(
        [
            CutDone(uid="a", version=69, outcome=SweepOutcome.DONE),
            CutDone(uid="b", version=-1, outcome=SweepOutcome.UNKNOWN, detail="not registered"),
        ]
    )

    done = [
        {"uid": "a", "version": 69, "outcome": "done", "detail": ""},
        {"uid": "b", "version": -1, "outcome": "unknown", "detail": "not registered"},
    ]
    assert api.asked[0][:4] == ("POST", "/v1/nodes/7/cuts", {}, {"instance": "shop", "done": done})


def test_an_invalid_cut_is_skipped_and_named(api: Api, cuts: HttpCuts, subtests: pytest.Subtests) -> None:
    valid = {"uid": "a", "tablet": "t", "version": 5}
    for item in [
        *(valid | {"version": version} for version in (-1, 2**62 + 1, "5", 5.0, True, None)),
        {"uid": "a", "tablet": "t"},
        *(valid | {"uid": uid} for uid in ("a_b", "../a", "a\n", "", "a" * 129)),
        valid | {"tablet": ""},
        "a",
        None,
        [],
    ]:
        with subtests.test(item=item):
            api.answers = [{"cuts": [item, {"uid": "b", "tablet": "t", "version": 2**62}], "next": ""}]

            page = cuts.page("")

            assert [cut.uid for cut in page.cuts] == ["b"]
            assert len(page.refused) == 1


def test_an_invalid_page_is_refused(api: Api, cuts: HttpCuts, subtests: pytest.Subtests) -> None:
    without_cuts = [b"", b"<html>", b"[]", b"{}", b"[" * 100_000, {"cuts": {}}]
    for number, answer in enumerate([*without_cuts, {"cuts": [], "next": 5}, {"cuts": [], "next": "a"}], 1):
        with subtests.test(answer=answer):
            api.answers = [answer]

            with pytest.raises(ApiRefused):
                cuts.page("b")
            assert len(api.asked) == number


def test_an_endless_answer_is_not_read(api: Api, cuts: HttpCuts) -> None:
    api.answers = [b'{"cuts":[],"next":"' + b"x" * (5 << 20) + b'"}']

    with pytest.raises(ApiRefused, match="more than"):
        cuts.page("")


def test_a_refusal_is_not_repeated_and_no_redirect_followed(api: Api, cuts: HttpCuts) -> None:
    for number, status in enumerate([301, 302, 307, 401, 403, 404, 500], 1):
        api.answers = [(status, {"detail": "this token is not known", "code": "X"})]

        with pytest.raises(ApiRefused, match=f"answers {status}: this token is not known") as told:
            cuts.page("")

        assert len(api.asked) == number
        assert TOKEN not in str(told.value)


def test_a_temporary_error_is_retried(api: Api, cuts: HttpCuts) -> None:
    for number, passing in enumerate([None, (503, b""), (429, b""), (502, b"bad gateway")], 1):
        api.answers = [passing, passing, {"cuts": [], "next": ""}]

        assert cuts.page("") == ([], "", [])
        assert len(api.asked) == 3 * number


def test_a_silent_server_is_tried_four_times(api: Api, cuts: HttpCuts) -> None:
    api.answers = [None]

    with pytest.raises(ApiSilent, match="does not answer"):
        cuts.acknowledge([CutDone(uid="a", version=1, outcome=SweepOutcome.DONE)])

    assert len(api.asked) == 4
    assert ApiSilent.passes


def test_a_bad_address_or_token_is_refused_without_the_token() -> None:
    for url, token in [
        ("ftp://x", TOKEN),
        ("http://", TOKEN),
        ("http://x:99999", TOKEN),
        ("http://x", ""),
        ("http://x", "secret\nx: y"),
    ]:
        with pytest.raises(BadInput) as told:
            HttpCuts(url, token, "7")

        assert "secret" not in str(told.value)
    with pytest.raises(PlainHttp, match="SEXTON_INSECURE_HTTP=true"):
        HttpCuts("http://sexton.example:8470", TOKEN, "7")
    HttpCuts("http://sexton.example:8470", TOKEN, "7", trust=Trust(insecure_http=True)).close()


def test_an_api_with_a_private_authority_is_trusted(api: Api, tmp_path: Path) -> None:
    files = certificate(tmp_path)
    trusting = Trust.of_environment({"SEXTON_CA_CERTS": str(files.authority)})
    api.answers = [{"cuts": []}]

    with tls_proxy(("127.0.0.1", int(api.url.rpartition(":")[2])), files) as url:
        for trust in (Trust(), trusting):
            cuts = HttpCuts(url, TOKEN, "7", wait=lambda _: None, trust=trust)
            if trust is trusting:
                assert cuts.page("").cuts == []
            else:
                with pytest.raises(ApiSilent, match="CERTIFICATE_VERIFY_FAILED"):
                    cuts.page("")
            cuts.close()
