"""Answers with evidence: computed again from that alone they are the same, and a changed field is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from live import running

from advisor import Advisor, SyncClient, replay_answer
from advisor.cli import main
from advisor.errors import InvalidValue, StateDamaged, TooLarge

WORK = {"a": (1.0, 0.1), "b": (2.0, 0.1), "c": (3.0, 0.05)}
ROWS = [
    (name, float(x), float(p), work * x * (serial + (1 - serial) / p) * (1.0 + 0.05 * ((3 * x + p) % 5)))
    for name, (work, serial) in WORK.items() for x in (1, 2, 3, 4) for p in (1, 2, 4, 8)
]  # fmt: skip
JOBS = [{"id": 1, "component": "a", "predictor": 2.0}, {"id": 2, "component": "new"}]
# By verb: the command, without what it reads, and what a client asks.
ASKED: dict[str, tuple[list[str], dict[str, Any]]] = {
    "predict": (["predict", "a", "--predictor", "1,7", "--cores", "1,16"],
                {"component": "a", "predictor": [1.0, 7.0], "cores": 16}),
    "choose_cores": (["choose-cores", "b", "--predictor", "3", "--cores-max", "8"],
                     {"component": "b", "predictor": 3.0, "cores_max": 8, "under_way": {4: 2}, "explore": True}),
    "choose_together": (["choose-together", "jobs.json", "--cores", "8"], {"jobs": JOBS, "cores": 8}),
    "suggest": (["suggest", "c", "--cores-max", "16"], {"component": "c", "cores_max": 16}),
    "allocate": (["allocate", "net.snet", "--cores", "12", "--shares", "1,3"],
                 {"network": "known", "cores": 12, "objective": "latency"}),
}  # fmt: skip


def taught() -> Advisor:
    advisor = Advisor()
    for name, x, p, t in ROWS:
        advisor.observe(name, predictor=x, cores=p, elapsed_s=t)
    return advisor


def plain(answer: Any) -> Any:
    return answer.as_wire() if isinstance(answer, list) else answer.as_dict()  # pyright: ignore[reportUnknownMemberType]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path


def other(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    return value + "x" if isinstance(value, str) else value * (1 + 2**-50) + 1


@pytest.mark.parametrize("verb", ASKED)
def test_an_answer_in_a_file_is_computed_again_and_a_changed_field_found(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        return int(ended.value.code or 0), capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("component,x,p,t\n" + "".join(f"{n},{x!r},{p!r},{t!r}\n" for n, x, p, t in ROWS))
    Path("jobs.json").write_text(json.dumps(JOBS))
    Path("net.snet").write_text("a .. (b | c)\n")
    status, text = run(*ASKED[verb][0], "--table", "rows.csv", "--evidence", "--json")
    assert status == 0
    answer = json.loads(text)
    Path("rows.csv").unlink()  # nothing but the answer is left
    Path("answer.json").write_text(text)
    status, text = run("explain", "answer.json", "--replay", "--json")
    found = json.loads(text)
    assert (status, found["same"], found["differences"]) == (0, True, [])
    assert any("answered" in sentence for sentence in found["sentences"])
    every = list(leaves({key: value for key, value in answer.items() if key != "basis"}))
    for path in every[:: max(1, len(every) // 25)]:
        changed = json.loads(json.dumps(answer))
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = other(place[path[-1]])
        Path("answer.json").write_text(json.dumps(changed))
        status, text = run("explain", "answer.json", "--replay", "--json")
        named = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)[1:]
        assert (status, [each["field"] for each in json.loads(text)["differences"]]) == (1, [named])
    assert run("explain", "answer.json", "--replay")[0] == 1


async def test_a_service_answers_from_the_evidence_that_it_sends(tmp_path: Path) -> None:
    def ask(path: str) -> None:
        with SyncClient(path) as client:
            client.observe_rows(ROWS)
            client.define_network("a .. (b | c)", id="known")
            for leaf in "bccb":  # the learned flow is part of the request
                client.observe(leaf, 1.0, 1, elapsed_s=1.0, network="known")
            client.flush()
            for verb, (_, request) in ASKED.items():
                more = {"shares": [[1, 3]]} if verb == "allocate" else {}
                bare = getattr(client, verb)(**request, **more)
                found = getattr(client, verb)(**request, **more, evidence=True)
                client.observe("a", 1.0, 1, elapsed_s=1000.0)  # what is learned later changes no replay
                again, basis = replay_answer(found.basis), found.basis
                assert basis.verb == verb
                assert basis.versions.keys() == {"advisor", "state"}
                assert bare.basis is None
                with_basis = plain(found)
                del with_basis["basis"]
                with_basis = with_basis.get("suggestions", with_basis)
                assert json.dumps(plain(again)) == json.dumps(with_basis) == json.dumps(plain(bare))

    async with running(tmp_path):
        await anyio.to_thread.run_sync(ask, str(tmp_path / "s"))


def test_an_advisor_in_process_gives_the_same_evidence() -> None:
    advisor = taught()
    for verb, (_, request) in ASKED.items():
        asked = request | ({"network": "a .. (b | c)", "shares": [[1, 3]]} if verb == "allocate" else {})
        found = getattr(advisor, verb)(**asked, evidence=True)
        assert plain(replay_answer(found.basis)) == plain(getattr(advisor, verb)(**asked))
    unseen = advisor.predict("new", predictor=1.0, prior=True, evidence=True)
    assert plain(replay_answer(unseen.basis)) == plain(advisor.predict("new", predictor=1.0, prior=True))


def test_evidence_is_refused_where_it_would_not_hold() -> None:
    advisor = taught()
    with pytest.raises(InvalidValue, match="evidence"):
        advisor.predict("a", evidence="yes")  # type: ignore[arg-type]
    found = advisor.choose_cores("a", cores_max=8, evidence=True).basis
    assert found is not None
    damaged = found.__class__(
        found.verb, found.request, found.curves[:999] + b"?" + found.curves[1000:], found.versions
    )
    with pytest.raises(StateDamaged):
        replay_answer(damaged)
    with pytest.raises(InvalidValue, match="verb"):
        replay_answer(found.__class__("forget", found.request, found.curves, found.versions))
    for i in range(300):
        advisor.observe(f"many{i}", cores=1, elapsed_s=1.0)
    with pytest.raises(TooLarge, match="evidence"):
        advisor.choose_cores("never seen", cores_max=8, evidence=True)
