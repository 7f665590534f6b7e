"""Who may come in: the Unix socket's mode, tokens, grants."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import stat
from pathlib import Path
from typing import Any, get_args

import httpx
import msgpack
import pytest
from live import PATIENCE_S, Peer, refused, rows_of, running
from service_access import GRANTS, SECRET, access_file, certified, greeted, token_file

from advisor.errors import AdvisorError, InvalidValue, Unavailable
from advisor.protocol.declaring import Scope
from advisor.protocol.verbs import METHODS
from advisor.service import hub, page
from advisor.service.access import OWNER, Access
from advisor.service.config import load_config
from advisor.service.connection import STRANGER_BYTES_MAX

pack = msgpack.packb
AT_ONCE = 120  # connections, fewer than any system holds back for a listener
ALLOWED = {
    "scraper": {"open", "read"},
    "renderers": {"open", "teach"},
    "operator": {"open", "read", "write", "teach", "admin"},
}


async def test_the_socket_is_for_its_owner_only_and_goes_with_the_service(tmp_path: Path) -> None:
    async with running(tmp_path):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600
    assert not (tmp_path / "s").exists()


async def test_a_second_service_on_the_same_socket_is_refused_with_words(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        with pytest.RaisesGroup(Unavailable, flatten_subgroups=True):
            async with running(tmp_path):
                pass
        await (await live.peer()).call("status", {})


async def test_tcp_asks_for_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        peer = await live.peer()
        await refused("unauthorized", peer.call("status", {}))
        await refused("unauthorized", peer.call("hello", {}))
        guess = await live.peer()
        error = await refused("unauthorized", guess.call("hello", {"token": SECRET + "r"}))
        assert SECRET not in str(error.as_dict())
        assert await guess.closed() == []
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        await peer.call("hello", {"token": SECRET})
        assert (await peer.call("observe_rows", {"rows": rows_of(3)}))["accepted"] == 3
    assert SECRET not in caplog.text


@pytest.mark.parametrize("wrong", [[SECRET], {SECRET: 1}, SECRET.encode(), SECRET * 200])
async def test_no_error_repeats_a_token(tmp_path: Path, wrong: Any) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        with pytest.raises(AdvisorError, match="token") as caught:
            await (await live.peer()).call("hello", {"token": wrong})
        assert SECRET not in str(caught.value.as_dict())


async def test_whoever_gives_no_token_is_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path), stall_s=0.1) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        stranger = await live.peer()
        await refused("unauthorized", stranger.call("status", {}))
        assert await stranger.closed() == []
        await friend.call("status", {})


async def test_the_unix_socket_asks_no_token(tmp_path: Path) -> None:
    async with running(tmp_path, socket=tmp_path / "s", tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        await (await live.peer()).call("status", {})


def test_the_page_has_the_verbs_of_each_scope() -> None:
    page = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
    assert all(f"<!--verbs:{scope}-->" in page for scope in get_args(Scope))


@pytest.mark.parametrize("name", ALLOWED)
async def test_each_verb_is_for_those_who_have_its_scope(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=access_file(tmp_path)) as live:
        peer = await greeted(live, name)
        for method, verb in METHODS.items():
            if method == "observe":
                continue  # of nobody in particular: below
            _, _, error, _ = await asked(peer, method)
            code = None if error is None else error["code"]
            assert (code == "unauthorized") == (verb.scope not in ALLOWED[name]), (method, error)


async def asked(peer: Peer, method: str) -> list[Any]:
    """Return the answer to a request that is well formed."""
    rows = {"rows": []}
    params: dict[str, Any] = {
        "names": [0, ["a"]], "predict": ["c", 1.0, 1], "observe_rows": [rows], "watch": [{"network": "c", "cores": 2}],
        "observe_columns": [{"components": [], "index": b"", "cores": b"", "elapsed_s": b""}],
        "define_network": [{"text": "c", "id": "n"}], "allocate": [{"network": "c", "cores": 2}],
        "pin": [{"component": "c", "model": "joint"}], "choose_cores": [{"component": "c", "cores_max": 2}],
        "choose_together": [{"jobs": [], "cores": 2}], "suggest": [{"component": "c", "cores_max": 2}],
        "allocate_together": [{"networks": [{"network": "c"}], "cores": 2}],
        "unwatch": [{"watch": 1}], "forget": [{"component": "c"}], "flow": [{"network": "n"}], "profile": [{"producer": "p"}],
        "simulate": [{"graph": {"times": b"\0" * 8}, "cores": [1]}],
        "predict_run": [{"program": "p", "size": 1.0, "workers": 1}],
        "observe_run": [{"program": "p", "size": 1.0, "workers": 1, "elapsed_s": 1.0}], "task_events": [{"records": b""}],
    }  # fmt: skip
    msgid = await peer.post(method, *params.get(method, [{}]))
    while (message := await peer.message())[:2] != [1, msgid]:
        pass
    return message


async def test_only_who_may_speak_for_a_producer_can(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=access_file(tmp_path)) as live:
        peer = await greeted(live, "renderers", producer="render.one")
        for producer in ("render.two", "exact"):
            await peer.call("observe_rows", {"producer": producer, "sequence": 1, "rows": rows_of(3)})
        for producer in ("other", "exactly", "render"):
            numbered = {"producer": producer, "sequence": 1, "rows": rows_of(3)}
            await refused("unauthorized", peer.call("observe_rows", numbered))
            await refused("unauthorized", peer.call("hello", {"producer": producer}))
        await peer.send(pack([2, "observe", ["c0", 1.0, 1.0, 1.0]]))
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        await refused("unauthorized", peer.call("hello", {"producer": "render.one", "resume_at": 7}))
        operator = await greeted(live, "operator")
        status = await operator.call("status", {})
        assert status["totals"]["rows_accepted"] == 6
        await operator.call("hello", {"producer": "lost", "resume_at": 7})


async def test_nobody_resumes_for_a_producer_that_another_connection_speaks_for(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        victim, foreign = await live.peer(), await live.peer()
        await victim.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows_of(3)})
        await refused("unavailable", foreign.call("hello", {"producer": "p", "resume_at": 9}))
        receipt = await victim.call("observe_rows", {"producer": "p", "sequence": 2, "rows": rows_of(3)})
        assert (receipt["accepted"], receipt.get("replayed")) == (3, None)


async def test_who_is_granted_something_else_is_ended_and_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    file = access_file(tmp_path)
    async with running(tmp_path, tcp="127.0.0.1:0", access_file=file, stall_s=2.0) as live:
        scraper, operator = await greeted(live, "scraper"), await greeted(live, "operator")
        file.write_text("[[grant]]\nname = 7")
        file.write_text(GRANTS.replace("the scraper's own secret", "the scraper's new secret"))
        assert await scraper.closed() == []
        await operator.call("status", {})
        newcomer = await live.peer()
        await newcomer.call("hello", {"token": "the scraper's new secret"})
        await newcomer.call("status", {})
        await refused("unauthorized", greeted(live, "scraper"))


def test_grants_that_do_not_read_leave_the_former_ones(tmp_path: Path) -> None:
    access = Access(load_config(socket="/s", access_file=(file := access_file(tmp_path))))
    for broken in ("[[grant]]\nname = 7", "[[", None):
        file.unlink() if broken is None else file.write_text(broken)
        with pytest.raises(InvalidValue, match=r"grant|access_file"):
            access.changed()
        assert not access.changed()  # told once
        assert access.grant(("unix", (4712, ()))) is not None
    rated = GRANTS.replace('name = "anna"', 'name = "anna"\nrows_per_second = 5')
    access_file(tmp_path, rated)
    assert access.changed()
    allowance = access.allowance(access.grant(("unix", (4712, ()))))
    access_file(tmp_path, rated.replace("4711", "4799"))
    assert access.changed()
    assert access.allowance(access.grant(("unix", (4712, ())))) is allowance  # who was there sends with who comes now
    assert access.grant(("unix", (1, (4711,)))) is None


async def test_who_is_granted_nothing_any_more_reads_no_more_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "TICK_S", 0.01)
    certificate, key = certified(tmp_path)
    file = access_file(tmp_path)
    options = {"tls_certificate": certificate, "tls_key": key, "access_file": file, "stall_s": 2.0}
    async with running(tmp_path, http="0.0.0.0:0", **options) as live:
        assert live.bound.http is not None
        context = ssl.create_default_context(cafile=certificate)
        url = f"https://localhost:{live.bound.http.port}{page.STREAM}"
        headers = {"authorization": "Bearer the scraper's own secret"}
        async with httpx.AsyncClient(verify=context, timeout=PATIENCE_S) as client, client.stream(
            "GET", url, headers=headers
        ) as stream:  # fmt: skip
            assert stream.status_code == 200
            file.write_text(GRANTS.replace("the scraper's own secret", "the scraper's new secret"))
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(httpx.TransportError):
                    async for _ in stream.aiter_raw():
                        pass


def test_users_and_groups_of_unix_peers_have_their_grants_together(tmp_path: Path) -> None:
    access = Access(load_config(socket="/s", access_file=access_file(tmp_path)))
    assert access.shares_socket
    assert access.grant(("unix", (os.getuid(), ()))) == OWNER
    assert access.grant(("unix", (4713, (1, 2)))) is None
    reader, anna = access.grant(("unix", (4713, (4711,)))), access.grant(("unix", (4712, (4711,))))
    assert reader is not None
    assert (reader.read, reader.write, reader.admin) == (True, (), False)
    assert anna is not None
    assert (anna.read, anna.write, anna.admin) == (True, ("anna",), False)


@pytest.mark.parametrize(
    "text",
    [
        "[[grant]]\nread = true",
        "[[grant]]\ntoken = 'short'",
        "[[grant]]\ntoken_sha256 = 'abc'",
        "[[grant]]\ntoken = 'long enough to be one'\nuser = 'root'",
        "[[grant]]\nuser = 'nobody-of-this-name'",
        "[[grant]]\nuser = 'root'\nreads = true",
        "[[grant]]\nuser = 'root'\nread = 1",
        "[[grant]]\nuser = 'root'\nrows_per_second = 0",
        "[[grant]]\nuser = 'root'\nrows_per_second = true",
        "[[grant]]\nuser = 'root'\nwrite = '*'",
        "[[grant]]\nuser = 'root'\n[[grant]]\nuser = '0'",
        "grant = 5",
        "[[grants]]",
        "grant",
    ],
)
def test_a_wrong_grant_is_refused_with_words(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidValue, match=r"grant|access_file"):
        Access(load_config(socket="/s", access_file=access_file(tmp_path, text)))


async def test_a_wrong_token_is_told_late_logged_counted_and_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    async with running(tmp_path, tcp="127.0.0.1:0", http="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        for number in range(30):
            peer = await live.peer()
            await refused("unauthorized", peer.call("hello", {"token": f"{SECRET} {number}"}))
            assert await peer.closed() == []
        assert live.bound.http is not None
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{live.bound.http.port}") as client:
            headers = {"authorization": f"Bearer {SECRET}"}
            assert "advisor_wrong_tokens_total 30.0\n" in (await client.get("/metrics", headers=headers)).text
    told = [record for record in caplog.records if "wrong token" in record.getMessage()]
    assert 1 <= len(told) <= 2 * hub.GUESSES_TOLD_A_MINUTE


async def test_a_guess_waits_for_its_answer_and_holds_a_strangers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer never comes here: so whoever guesses gives way to newcomers with nothing said, and others are served."""
    monkeypatch.setattr(hub, "GUESS_S", 1e9)
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        guessers = [await live.peer() for _ in range(hub.STRANGERS_MAX)]
        for number, guesser in enumerate(guessers):
            await guesser.post("hello", {"token": f"{SECRET} {number}"})
            await guesser.post("hello", {"token": SECRET})  # the second guess of one connection is not looked at
        await friend.call("status", {})
        newcomers = [await live.peer() for _ in guessers]
        for newcomer in newcomers:
            await newcomer.call("hello", {"token": SECRET})
            for guesser in guessers[:1]:
                assert await guesser.closed() == []
            del guessers[:1]


async def test_strangers_cost_no_more_than_a_hello(tmp_path: Path) -> None:
    """Many come and say nothing, one sends megabytes: those who are known are served, newcomers find a place."""
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        loud = await live.peer()
        loud.writer.write(pack([0, 1, "status", ["x" * 2 * STRANGER_BYTES_MAX]]))
        await loud.closed()
        strangers = [await live.peer() for _ in range(2 * hub.STRANGERS_MAX)]
        assert (await friend.call("status", {}))["service"]["connections"] <= hub.STRANGERS_MAX + 1
        newcomer = await live.peer()
        await newcomer.call("hello", {"token": SECRET})
        assert len(strangers) == 2 * hub.STRANGERS_MAX


async def test_strangers_who_come_in_one_turn_have_no_more_places(tmp_path: Path) -> None:
    """They have all connected before the service accepts the first."""
    async with running(tmp_path, tcp="127.0.0.1:0", token_file=token_file(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        assert live.bound.tcp is not None
        many = [socket.create_connection(("127.0.0.1", live.bound.tcp.port)) for _ in range(AT_ONCE)]
        for _ in many:  # turns of the loop in which they are accepted
            status = await friend.call("status", {})
        assert status["service"]["connections"] <= hub.STRANGERS_MAX + 1
        for each in many:
            each.close()
