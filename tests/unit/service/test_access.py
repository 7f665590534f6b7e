"""Who may come in: the Unix socket's mode, tokens and their scopes, places kept for authenticated peers."""

from __future__ import annotations

import asyncio
import logging
import socket
import stat
from pathlib import Path
from typing import Any

import httpx
import msgpack
import pytest
from live import Peer, refused, rows_of, running
from service_access import SECRET, greeted, one_token, tokens_file

from advisor.errors import AdvisorError, InvalidValue, Unavailable
from advisor.protocol.verbs import METHODS
from advisor.service import hub
from advisor.service.access import Access
from advisor.service.config import load_config
from advisor.service.connection import STRANGER_BYTES_MAX

pack = msgpack.packb
AT_ONCE = 120  # connections, fewer than any system holds back for a listener
ALLOWED = {
    "scraper": {"open", "read"},
    "writer": {"open", "read", "write", "teach"},
    "operator": {"open", "read", "write", "teach", "admin"},
}


@pytest.mark.parametrize(("options", "mode"), [({}, 0o600), ({"socket_mode": "0660"}, 0o660)])
async def test_the_socket_has_its_mode_and_goes_with_the_service(
    tmp_path: Path, options: dict[str, str], mode: int
) -> None:
    async with running(tmp_path, **options):
        assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == mode
    assert not (tmp_path / "s").exists()


async def test_a_second_service_on_the_same_socket_is_refused_with_words(tmp_path: Path) -> None:
    async with running(tmp_path) as live:
        with pytest.RaisesGroup(Unavailable, flatten_subgroups=True):
            async with running(tmp_path):
                pass
        await (await live.peer()).call("status", {})


async def test_tcp_asks_for_the_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
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
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
        with pytest.raises(AdvisorError, match="token") as caught:
            await (await live.peer()).call("hello", {"token": wrong})
        assert SECRET not in str(caught.value.as_dict())


async def test_whoever_gives_no_token_is_dropped(tmp_path: Path) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path), stall_s=0.1) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        stranger = await live.peer()
        await refused("unauthorized", stranger.call("status", {}))
        assert await stranger.closed() == []
        await friend.call("status", {})


async def test_the_unix_socket_asks_no_token(tmp_path: Path) -> None:
    async with running(tmp_path, socket=tmp_path / "s", tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
        await (await live.peer()).call("status", {})


@pytest.mark.parametrize("name", ALLOWED)
async def test_each_verb_is_for_those_who_have_its_scope(tmp_path: Path, name: str) -> None:
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=tokens_file(tmp_path)) as live:
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
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=tokens_file(tmp_path)) as live:
        peer = await greeted(live, "renderers", producer="render.one")
        for producer in ("render.two", "exact"):
            await peer.call("observe_rows", {"producer": producer, "sequence": 1, "rows": rows_of(3)})
        for producer in ("other", "exactly", "render"):
            numbered = {"producer": producer, "sequence": 1, "rows": rows_of(3)}
            await refused("unauthorized", peer.call("observe_rows", numbered))
            await refused("unauthorized", peer.call("hello", {"producer": producer}))
        await peer.send(pack([2, "observe", ["c0", 1.0, 1.0, 1.0]]))
        await refused("unauthorized", peer.call("observe_rows", {"rows": rows_of(3)}))
        operator = await greeted(live, "operator")
        status = await operator.call("status", {})
        assert status["totals"]["rows_accepted"] == 6


def token(**keys: str) -> str:
    """Return a table of one token that is fine but for the keys given, as TOML; an empty text leaves a key out."""
    given = {"secret": "'long enough to be one'", "scope": "'write'", **keys}
    return "\n".join(["[[token]]", *(f"{key} = {value}" for key, value in given.items() if value)])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"1 to 1000 tables \[\[token\]\]"),
        ("token = 5", "tables"),
        ("token = [5]", "a table"),
        ("[[tokens]]", "tables"),
        ("[[grant]]\nread = true", "tables"),
        ("token", "TOML"),
        (token(scope=""), r"token\[0\].scope is None, must be one of read, write, admin"),
        (token(scope="'all'"), "one of read, write, admin"),
        (token(scope="['read']"), "one of read, write, admin"),
        (token(secret=""), "one of secret and secret_sha256"),
        (token(secret_sha256=f"'{'0' * 64}'"), "one of secret and secret_sha256"),
        (token(secret="'short'"), "16 to 4096 bytes"),
        (token(secret="5"), "text"),
        (token(secret="", secret_sha256="'abc'"), "64 hexadecimal digits"),
        (token(name="''"), "token\\[0\\].name"),
        (token(write="['a*b']"), "has no key 'write'"),
        (token(producer="['a']"), "did you mean 'producers'"),
        (token(producers="['a*b']"), "one \\* at the end"),
        (token(producers="['*']"), "one \\* at the end"),
        (token(producers="['a', '']"), "a name"),
        (token(producers="[]"), "one name or more"),
        (token(producers="'a'"), "one name or more"),
        (token(producers="['a']", scope="'read'"), "only scope = 'write' may name producers"),
        (token() + "\n" + token(), r"token\[1\].*a secret that no other token has"),
    ],
)
def test_a_wrong_token_table_is_refused_with_words(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(AdvisorError, match=words) as caught:
        Access(load_config(socket="/s", tokens=tokens_file(tmp_path, text)))
    assert "long enough" not in str(caught.value)


@pytest.mark.parametrize("mode", [None, 0o644])
def test_a_file_of_tokens_is_there_and_private(tmp_path: Path, mode: int | None) -> None:
    file = one_token(tmp_path)
    file.unlink() if mode is None else file.chmod(mode)
    with pytest.raises(InvalidValue, match="No such file" if mode is None else "owner only.*chmod 600"):
        Access(load_config(socket="/s", tokens=file))


async def test_a_wrong_token_is_told_late_logged_counted_and_ends_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "GUESS_S", 0.001)
    async with running(tmp_path, tcp="127.0.0.1:0", http="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
        for number in range(30):
            peer = await live.peer()
            await refused("unauthorized", peer.call("hello", {"token": f"{SECRET} {number}"}))
            assert await peer.closed() == []
        assert live.bound.http is not None
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{live.bound.http.port}") as client:
            headers = {"authorization": f"Bearer {SECRET}"}
            assert "advisor_wrong_tokens_total 30.0\n" in (await client.get("/metrics", headers=headers)).text
    reported = [record for record in caplog.records if "wrong token" in record.getMessage()]
    assert 1 <= len(reported) < 20


async def test_a_guess_waits_for_its_answer_and_holds_a_strangers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer never comes here: so whoever guesses gives way to newcomers with nothing said, and others are served."""
    monkeypatch.setattr(hub, "GUESS_S", 1e9)
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
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
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
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
    async with running(tmp_path, tcp="127.0.0.1:0", tokens=one_token(tmp_path)) as live:
        friend = await live.peer()
        await friend.call("hello", {"token": SECRET})
        assert live.bound.tcp is not None
        many = [socket.create_connection(("127.0.0.1", live.bound.tcp.port)) for _ in range(AT_ONCE)]
        for _ in many:  # turns of the loop in which they are accepted
            status = await friend.call("status", {})
        assert status["service"]["connections"] <= hub.STRANGERS_MAX + 1
        for each in many:
            each.close()


async def test_open_peers_leave_places_for_those_of_the_unix_socket(tmp_path: Path) -> None:
    places = 2 * hub.PLACES_RESERVED
    async with running(tmp_path, tcp="127.0.0.1:0", connections_max=places, socket=tmp_path / "s") as live:
        assert live.bound.tcp is not None
        opened = []
        for _ in range(places - 2):
            peer = Peer(*await asyncio.open_connection("127.0.0.1", live.bound.tcp.port))
            await peer.call("status", {})
            opened.append(peer)
        late = Peer(*await asyncio.open_connection("127.0.0.1", live.bound.tcp.port))
        assert await late.closed() == []
        for _ in range(2):
            await (await live.peer()).call("status", {})
        for peer in [late, *opened]:
            peer.close()
