"""Every option of every command that a verb declares, of a table and of a service: it works for both, or is refused with words.

An option that only the wire knows went once to advisors in process. A new option needs a line here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner
from live import PATIENCE_S, serving

from advisor import Advisor, SyncClient
from advisor.cli import advisor

WHERE = {
    "socket",
    "tcp",
    "token_file",
    "tls_ca",
    "tls_certificate",
    "state",
    "table",
    "columns",
    "as_json",
}
NETWORK = "a .. (b | c) .. a"
SHARES = ("--shares", "1,3")
PLAN = {
    "cores": "8", "objective": "latency", "visits": "b=0.5", "shares": "3,1", "minimum": "b=2", "maximum": "b=2",
    "instances_max": "2", "load": "b=4", "component": "c=b", "level": "0.8", "allowed": "power_of=2", "pin": "b=2",
    "nodes": "8", "memory_bytes": "1e9", "arrival_per_s": "0.1", "arrival_variation": "0.5", "quantile": "0.9",
    "speed": "b=2", "work_max": "100000", "turns": "never",
}  # fmt: skip
# Of each command: what is always said, and a value for each option; None is a flag.
COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "predict": (("a",), {
        "predictor": "2,4", "cores": "1..4", "level": "0.5", "model": "two_step", "machine": "node7", "measure": "peak_bytes",
        "prior": None, "fresh": None, "evidence": None,
    }),
    "choose-cores": (("a", "--cores-max", "8"), {
        "predictor": "4", "cores_max": "4", "tolerance": "0.2", "level": "0.5", "risk": "0.5", "explore": "true",
        "machine": "node7", "fresh": None, "evidence": None,
        "allowed": "1,2,4", "objective": "core_seconds",
        "usual": "2", "count": "3",
    }),
    "suggest": (
        ("a", "--cores-max", "8"),
        {"cores_max": "4", "allowed": "2,4", "limit": "1", "fresh": None, "evidence": None},
    ),
    "allocate": (("{network}", "--cores", "8"), PLAN | {
        "depths": "2", "fan_outs": "2", "returns": "0.1", "fresh": None,
        "evidence": None, "current": "b=2",
        "throughput_per_s": "0.1", "latency_s": "100", "sweep": "cores=2..8:2",
        "form": "snet",
    }),
    "status": ((), {"offset": "1", "limit": "1"}),
    "predict-run": (("sort", "--size", "10", "--workers", "2"), {
        "size": "20", "workers": "1,2", "level": "0.5",
    }),
}  # fmt: skip
OF_A_SERVICE = {"fresh"}  # how a service answers: refused of a table
# Of this network, which has neither star nor split nor feedback, and of these rows, which tell no memory and no task type.
REFUSED = {("predict", "measure"), *(
    ("allocate", option) for option in ("depths", "fan_outs", "returns")
)}  # fmt: skip
TOGETHER = {"current": ("--current", "a#1=2", "--current", "c=1", "--current", "a#2=2"),
            "latency_s": ("--objective", "fewest_cores"), "throughput_per_s": ("--objective", "fewest_cores"),
            "quantile": ("--arrival", "0.1"),
            "arrival_variation": ("--arrival", "0.1")}  # fmt: skip
CASES = [(command, option) for command, (_, options) in COMMANDS.items() for option in options]


def rows() -> list[tuple[str, float, int, float]]:
    return [
        (name, x, p, 0.1 * (1 + place) * x * (0.2 + 0.8 / p))
        for _ in range(2)
        for place, name in enumerate("abc")
        for x in (1.0, 2.0, 4.0)
        for p in (1, 2, 4)
    ]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, ...]]]:
    """Whom to ask: a table, and a service that was taught its rows."""
    folder = tmp_path_factory.mktemp("asked")
    (folder / "one.snet").write_text(NETWORK)
    table = "".join(f"{name},{x},{p},{t}\n" for name, x, p, t in rows())
    (folder / "table.csv").write_text("component,x,p,t\n" + table)
    runs = [
        {"size": 10.0 * k, "workers": 1 + k % 2, "elapsed_s": k / (1 + k % 2), "work_s": 1.0 * k} for k in range(1, 7)
    ]
    reported: list[dict[str, Any]] = [
        run | {"delay_s": 0.0, "no_work_s": 0.0, "creates": 9.0, "waits": 3.0} for run in runs
    ]
    taught = Advisor()
    for each in reported:
        taught.observe_run("sort", **each)
    (folder / "runs.state").write_bytes(taught.to_bytes())
    with serving(folder):
        with SyncClient(str(folder / "s"), timeout_s=PATIENCE_S) as client:
            client.observe_rows(rows())
            for each in reported:
                client.observe_run("sort", **each)
        yield {
            "table": ("--table", str(folder / "table.csv")), "socket": ("--socket", str(folder / "s")),
            "runs": ("--state", str(folder / "runs.state")), "folder": (str(folder),),
        }  # fmt: skip


def test_every_option_has_a_case() -> None:
    for name, (_, known) in COMMANDS.items():
        command = advisor.get_command(click.Context(advisor), name)
        assert command is not None
        there = {each.name for each in command.params if isinstance(each, click.Option)} - WHERE
        assert there == set(known), name


@pytest.mark.parametrize(("command", "option"), CASES)
def test_an_option_works_for_a_table_and_a_service_or_is_refused_by_both(
    places: dict[str, tuple[str, ...]], command: str, option: str
) -> None:
    always, values = COMMANDS[command]
    (flag,) = [
        each.opts[0]
        for each in advisor.get_command(click.Context(advisor), command).params  # type: ignore[union-attr]
        if each.name == option
    ]
    (folder,) = places["folder"]
    given = [*always, flag, *([] if values[option] is None else [values[option]])]
    if option in TOGETHER and not (command == "allocate" and option == "cores"):
        given += TOGETHER[option]
    if option == "sweep":  # beside one number of cores it is refused
        given = [word for word in given if word not in ("--cores", "8")]
    if command == "allocate" and option != "shares":
        given += SHARES
    words = [word.format(network=f"{folder}/one.snet") for word in given]
    reported = {}
    for place in ("table", "socket"):
        whom = places["runs"] if command == "predict-run" and place == "table" else places[place]
        done = CliRunner().invoke(advisor, [command, *words, *whom, "--json"])
        assert done.exception is None or isinstance(done.exception, SystemExit), (place, done.exception)
        reported[place] = done
    if option in OF_A_SERVICE:
        assert reported["table"].exit_code == 2
        assert flag[2:] in reported["table"].output
        assert reported["socket"].exit_code == 0, reported["socket"].output
        return
    table, socket = reported.values()
    assert table.exit_code == socket.exit_code, (table.output, socket.output)
    assert bool(table.exit_code) == ((command, option) in REFUSED), table.output
    if table.exit_code:
        errors = [json.loads(each.output.splitlines()[-1])["error"] for each in (table, socket)]
        assert errors[0]["code"] == errors[1]["code"]
        assert errors[0]["field"] == errors[1]["field"]
        return
    answers = [json.loads(each.stdout) for each in (table, socket)]
    assert answers[0].keys() == answers[1].keys() - {"service"}
