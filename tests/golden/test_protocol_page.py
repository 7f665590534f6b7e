"""Every frame of docs/frames.txt, and what docs/protocol.md says: the page is the contract, so it is held to be true."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import msgpack
import pytest

from advisor.client.session import Session
from advisor.domain import limits
from advisor.domain.answers import Suggestion
from advisor.domain.job_pools import PoolPlan
from advisor.domain.rows import FIELDS, REFUSALS
from advisor.domain.shapes import read
from advisor.domain.sharing import Together
from advisor.domain.task_graphs import task_graph
from advisor.engine.asking import PINS
from advisor.protocol import verbs as v
from advisor.protocol.connection import ClientConnection, RpcRequest, ServerConnection, Singles
from advisor.protocol.declaring import sent
from advisor.protocol.encoding import EMPTY, bodies_of_columns, bodies_of_rows, body_of, encode_numbered
from advisor.protocol.verbs import METHODS, check_params

DOCS = Path(__file__).parents[2] / "docs"
PAGE, TEXT = ((DOCS / name).read_text(encoding="utf-8") for name in ("protocol.md", "frames.txt"))
DECLARATIONS = SimpleNamespace(**runpy.run_path(str(DOCS / "declarations.py")))
WHOLE = DECLARATIONS.completed(PAGE, TEXT)  # as the site has it
WORDS = {"nil": "None", "true": "True", "false": "False"}
INCARNATION = bytes(range(16))
UNSAID = (
    "observe",
    "names",
    "forget",
    "pin",
    "set_allowed",
    "task_events",
    "profile",
    "observe_run",
)  # not said by the session below


def literal(text: str) -> object:
    text = re.sub(r"h'([0-9a-f]*)'", lambda match: repr(bytes.fromhex(match[1])), text)
    return ast.literal_eval(re.sub(r"\b(nil|true|false)\b", lambda match: WORDS[match[1]], text))


FRAMES = [
    (side, literal(message), bytes.fromhex("".join(data.split())))
    for side, message, data in re.findall(r"```frame\n(client|service): (.*)\n((?:  [0-9a-f ]+\n)+)```", WHOLE)
]
CLIENT = [(message, data) for side, message, data in FRAMES if side == "client"]


def section(number: int) -> str:
    return PAGE.split(f"\n## {number}. ")[1].split("\n## ")[0]


@pytest.mark.parametrize(("side", "message", "data"), FRAMES, ids=lambda value: str(value)[:40])
def test_a_frame_is_its_message(side: str, message: list, data: bytes) -> None:
    assert msgpack.packb(message) == data
    if side == "service":
        (reply,) = ClientConnection().receive_replies(data)
        if message[0] == 2:
            assert (reply.method, reply.params) == (message[1], message[2])
            return
        assert (reply.msgid, reply.result) == (message[1], message[3])
        assert (reply.error and reply.error.as_dict()) == message[2]
        return
    (event,) = ServerConnection().receive_requests(data)
    if isinstance(event, Singles):
        assert event.rows == [message[2]]
    else:
        assert event == RpcRequest(*message[1:])
        check_params(event.method, event.params)


def test_there_is_a_frame_for_every_method() -> None:
    assert {message[-2] for message, _ in CLIENT} == set(METHODS)


def sent_by_our_client() -> set[bytes]:
    """What the client says, where the page has the same."""
    teaching, session = (Session("node7", lambda: INCARNATION) for _ in range(2))
    teaching.outbox.submit(EMPTY)  # only who has something to number says which producer it is
    teaching.connected()
    said = [teaching.outgoing()]
    session.connected()
    session.outgoing()
    session.receive_answers(msgpack.packb([1, 2, None, {"sequence": 0}]))
    numbered = [
        (3, bodies_of_rows([["matmul", 1024.0, 4.0, 0.5], ["sort", None, 1.0, 0.25, {"count": 3}]], 9)[0], 1),
        (4, bodies_of_columns({"index": [1, 0], "cores": [1, 4], "elapsed_s": [0.25, -1]}, 9)[0], 2),
        (5, EMPTY, 9),
    ]
    said += [encode_numbered(msgid, body, "node7", INCARNATION, number) for msgid, body, number in numbered]
    for msgid, asked in (
        (7, v.ChooseCores("matmul", 2048, cores_max=16)),
        (8, v.Allocate("matmul .. sort", 8)),
        (
            18,
            v.AllocateTogether(
                [
                    {"network": "images", "weight": 2.0},
                    {"network": "matmul .. sort", "name": "batch"},
                ],
                12,
            ),
        ),
        (9, v.StatusAsked(True, limit=10)),
        (14, v.DefineNetwork("images", "read .. (small | large) .. write")),
        (15, v.FlowAsked("images")),
        (17, v.PredictRun("sort", size=[1e6, 4e6], workers=36)),
        (11, v.Suggest("matmul", cores_max=16, limit=1)),
        (14, v.CurvesAsked(["matmul"], since=7)),
        (15, v.SimulateAsked(task_graph([3.0, 1.0, 2.0], [(0, 2)]), 2, policies="lpt", metrics=["speedup"])),
        (13, v.Predict("gemm", [[512, 256]], 8, machine="node7", measure="peak_bytes")),
        (15, v.Watch("matmul .. sort", 8, change_cost_s=2.0)),
        (16, v.Unwatch(1)),
        (18, v.Shards(3)),
        (19, v.Export("components:256")),
        (
            20,
            v.ChooseTogether(
                [
                    {"id": 7, "component": "sort", "cores_now": 4},
                    {"id": 8, "component": "matmul", "predictor": 2048, "allowed": [1, 2, 4, 8]},
                ],
                12,
            ),
        ),
    ):
        session._last_id = msgid - 2
        session.call(asked.verb.name, [sent(asked)], print)
        said.append(session.outgoing())
    return set(said)


def test_our_client_says_what_the_page_says() -> None:
    ours = sent_by_our_client()
    page = {data for message, data in CLIENT if message[1] != 6 and message[-2] not in UNSAID}
    assert ours == page


def test_our_client_understands_what_the_page_answers() -> None:
    session = Session("node7", lambda: INCARNATION)
    answers = {message[1]: (message, data) for side, message, data in FRAMES if side == "service"}
    session.outbox.submit(bodies_of_rows([["matmul", 1024.0, 4.0, 0.5], ["sort", None, 1.0, 0.25]], 9)[0])
    session.outbox.submit(bodies_of_columns({"index": [1, 0], "cores": [1, 4], "elapsed_s": [0.25, -1]}, 9)[0])
    forgotten: list[object] = []
    session.call_numbered(body_of("forget", {"component": "sort"}), lambda *answer: forgotten.append(answer))
    session._last_id = 1
    session.connected()
    session.receive_answers(answers[2][1])
    session._last_id = 2  # behind the page's `names`, which this client does not say
    session.outgoing()
    session.receive_answers(answers[3][1])
    session.receive_answers(answers[4][1])
    stats = session.stats
    assert (stats.rows_acknowledged, stats.rows_accepted, stats.rows_refused) == (4, 3, 1)
    together = read(Together, answers[18][0][3])
    assert [(part.name, part.cores_used) for part in together.networks] == [("images", 6), ("batch", 6)]
    assert together.bottleneck == (("images", "read"), ("batch", "matmul"))
    pool = read(PoolPlan, answers[20][0][3])
    assert (pool.cores, pool.jobs[1].elapsed_s, pool.assumed) == ({7: 4, 8: 8}, 0.25, {})
    (suggestion,) = read(list[Suggestion], answers[11][0][3])
    assert (suggestion.predictor, suggestion.cores, suggestion.cost_core_s) == (2048.0, 16.0, 4.0)
    assert session.receive_answers(answers[5][1]) is None  # a gap is no failure: sent again
    session.outgoing()
    assert session.receive_answers(msgpack.packb([1, session._last_id, None, {"rows": 1}])) is None
    assert forgotten == [(None, {"rows": 1})]


def test_the_whole_page_shows_each_limit_and_each_error() -> None:
    assert set(DECLARATIONS.LIMITS) <= DECLARATIONS.limit_reasons().keys()
    stated = {name: int(value) for name, value in re.findall(r"\| `([A-Z_]+_MAX)` \| (\d+) \|", WHOLE)}
    assert stated == {name: getattr(limits, name) for name in DECLARATIONS.LIMITS}
    assert f"the first {limits.FIRST_REFUSALS} " in section(4)
    listed = dict(re.findall(r"^\| `(\w+)` \| (no|yes) \|", WHOLE.split("\n## 7. ")[1], re.MULTILINE))
    assert listed == {code: "yes" if cls.retry else "no" for code, cls in DECLARATIONS.wire_errors().items()}
    assert not re.search(r"<!--\w", WHOLE)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.name)
def test_a_mark_of_a_page_names_what_there_is(page: Path) -> None:
    assert "<!--keys:" not in DECLARATIONS.completed(page.read_text(encoding="utf-8"), TEXT).replace(
        "<!--keys:NAME-->", ""
    )


def test_every_frame_stands_in_a_section() -> None:
    assert len(FRAMES) == len(re.findall(r"^(?:client|service): ", TEXT, re.MULTILINE))
    with pytest.raises(KeyError):
        DECLARATIONS.frames_of("no section", TEXT)


@pytest.mark.parametrize("name", METHODS)
def test_a_section_has_the_keys_of_its_verb(name: str) -> None:
    """In a table that is made of the declaration, or in the text of the section."""
    said = re.split(r"\n##", PAGE.split(f"\n### {name}\n")[1])[0]
    assert f"<!--keys:{name}-->" in said or name in ("names", "observe", "observe_rows", "observe_columns")
    if name in ("names", "observe", "observe_rows"):
        assert set(METHODS[name].keys) <= set(re.findall(r"\w+", said))


def test_every_verb_has_one_scope() -> None:
    scopes = [
        re.findall(r"`(\w+)`", DECLARATIONS.verbs_of(scope)) for scope in ("open", "read", "write", "teach", "admin")
    ]
    assert sorted(name for names in scopes for name in names) == sorted(METHODS)


def test_every_form_is_named() -> None:
    reported = set(re.findall(r"`([a-z_ ]+?)(?: degree K)?`", section(6).split("### predict\n")[1].split("\n### ")[0]))
    assert {re.sub(r" degree \d$", "", form) for form in PINS} <= reported


def test_every_refusal_is_listed() -> None:
    table = WHOLE.split("### Receipts")[1].split("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(REFUSALS)


def test_every_optional_field_is_listed() -> None:
    table = WHOLE.split("## 4. Observations")[1].split("### observe\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(FIELDS)


def test_a_verb_without_keys_has_no_table() -> None:
    assert not re.search(r"^\|---[-|]*\n(?!\|)", WHOLE, re.MULTILINE)
