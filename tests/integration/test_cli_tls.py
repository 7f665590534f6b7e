"""Commands against a service on TCP with TLS and tokens: each takes both, from options and from the environment."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from live import serving
from service_access import certified, tokens_file

from advisor import SyncClient
from advisor.cli import advisor
from advisor.client.address import tls_by
from advisor.client.session import Session

JOBS, NETWORK = '[{"id": 1, "component": "a"}]', "a .. a"
READ: dict[str, tuple[str, ...]] = {
    "status": (), "predict": ("a",), "choose-cores": ("a", "--cores-max", "4"), "suggest": ("a", "--cores-max", "4"),
    "choose-together": ("jobs", "--cores", "4"), "advise": ("--to", "sbatch"), "allocate": ("net", "--cores", "4"),
    "report": ("-o", "r.html"), "profile": (), "export": ("out",),
}  # fmt: skip
CHANGED: dict[str, tuple[str, ...]] = {
    "pin": ("a", "two_step"), "set-allowed": ("a", "1,2,4"), "forget": ("a", "--yes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = certified(folder)
    for name in ("scraper", "operator"):
        (folder / name).write_text(f"the {name}'s own secret\n")
    (folder / "jobs").write_text(JOBS)
    (folder / "net").write_text(NETWORK)
    files = {"tls_certificate": certificate, "tls_key": key, "tokens": tokens_file(folder)}
    with serving(folder, tcp="127.0.0.1:0", **files) as live:
        at = f"localhost:{live.bound.tcp.port}"
        with SyncClient(at, token="the writer's own secret", tls=tls_by(str(certificate))) as client:
            client.observe_rows([("a", x, p, x / p) for x in (1.0, 2.0) for p in (1.0, 2.0, 4.0) for _ in range(3)])
        yield folder, at


def call(monkeypatch: pytest.MonkeyPatch, folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    monkeypatch.chdir(folder)
    done = CliRunner(env=environment).invoke(advisor, list(words))
    return done.exit_code, done.output


def test_a_token_that_reads_is_enough_for_every_question(
    address: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, at = address
    where = ("--tcp", at, "--tls-ca", "cert.pem", "--token-file", "scraper")
    for name, words in READ.items():
        status, said = call(monkeypatch, folder, name, *words, *where)
        assert status == 0, (name, said)
    for name, words in CHANGED.items():
        status, said = call(monkeypatch, folder, name, *words, *where)
        assert status == 2, (name, said)
        assert "token 'scraper' has the scope read" in said


def test_what_changes_a_service_takes_the_operators_token_from_the_environment(
    address: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, at = address
    given = {"ADVISOR_TCP": at, "ADVISOR_TLS_CA": "cert.pem", "ADVISOR_TOKEN_FILE": "operator"}
    for name, words in CHANGED.items():
        status, said = call(monkeypatch, folder, name, *words, **given)
        assert status == 0, (name, said)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((), "TLS only"),
        (
            ("--tls-ca", "cert.pem"),
            "no token, or a wrong one (ask the operator of the service; commands take --token-file",
        ),
        (("--tls-ca", "system", "--token-file", "scraper"), "CERTIFICATE_VERIFY"),
        (("--tls-ca", "system", "--token-file", "scraper"), "the authority that tls, --tls-ca names?"),
    ],
)
def test_what_is_missing_is_named(
    address: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], words: str
) -> None:
    folder, at = address
    status, said = call(monkeypatch, folder, "status", "--tcp", at, *given)
    assert status in (1, 2)
    assert words in said


def test_the_first_message_of_a_plain_client_is_no_beginning_of_a_handshake() -> None:
    """TLS must see that it is none. It waited for the rest of a message of number 1, which looks like a greeting of SSL 2."""
    session = Session("p", lambda: bytes(16))
    session.connected()
    came = ssl.MemoryBIO()
    came.write(session.outgoing())
    with pytest.raises(ssl.SSLError) as caught:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).wrap_bio(came, ssl.MemoryBIO(), server_side=True).do_handshake()
    assert not isinstance(caught.value, ssl.SSLWantReadError)
