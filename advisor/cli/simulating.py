"""`advisor simulate`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show_simulation
from advisor.cli.declared import declared
from advisor.cli.options import Output, command
from advisor.domain import limits
from advisor.errors import InvalidValue
from advisor.protocol import verbs as v

if TYPE_CHECKING:
    from advisor.files.graphs import GraphFile

KEPT = ("cores", "policies", "measured_alone", "seed", "advise")  # options that an analysis takes as they are


WANTED = "a number of cores like 4, or a range like 1..64 or 2..64:2"
CORES_FORM = options.ValueForm("P[..Q[:STEP]][,…]", partial(options.counts_of, most=limits.SIMULATE_CORES_MAX), WANTED)
FORMS: dict[str, dict[str, Any]] = {
    "cores": {"type": CORES_FORM, "default": "1,2,4,8", "help": "Numbers of cores."},
    "policies": {"name": "policy", "type": options.WORDS, "default": "fifo", "show_default": True,
                 "help": "Policies; a wrong name lists them."},
    "contention": {"type": str, "help": "What running tasks cost each other, MODEL:key=value,…[+lock:hold=…]."},
    "metrics": {"name": "metric", "type": options.WORDS, "default": [],
                "help": "Show these too (idle, critical_path, …; a wrong name lists them)."},
    "components": {"name": "component", "type": options.KEY_TEXT, "multiple": True},
}  # fmt: skip


@command(
    click.argument("graph", metavar="GRAPH"),
    declared(v.SimulateAsked, leave=("graph", "predict_times"), **FORMS),
    click.option(
        "--chrome", type=options.PATH, help="Write who runs what when as a trace for Perfetto or Chrome (JSON)."
    ),
    options.learned,
)
def simulate_command(graph: str, **given: Any) -> Output:
    """Compute what executing a task graph would take, on each number of cores and with each policy, without running it.

    GRAPH is a file (.json, .events). A trace shows the first policy on the most cores. With --socket, --tcp, --state
    or --table the tasks' times are predicted by what was learned, by task type and size.
    """
    predicted = any(given[key] for key in ("socket", "tcp", "state", "table"))
    if given["components"] and not predicted:
        raise InvalidValue(
            "component", dict(given["components"]), "with --socket, --tcp, --state or --table, which predict"
        )
    _check_target(given["chrome"])
    from advisor.files.graphs import read_graph

    source = read_graph(graph, timed=not predicted)
    if predicted:
        source = _predicted(source, given)
    from advisor.simulation import Analyses, contention_of_text
    from advisor.simulation.requests import PLAIN

    contention = given["contention"]
    asked = Analyses(
        source.graph, contention=contention_of_text(contention) if contention else None,
        metrics=(*PLAIN, *given["metrics"]), **{key: given[key] for key in KEPT},
    )  # fmt: skip
    result = asked.answer() | {"graph": source.name}
    if given["chrome"]:
        from advisor.files.chrome import write_chrome

        shown = asked.run(max(asked.cores), asked.policies[0], trace=True)
        result["chrome"] = str(write_chrome(shown, given["chrome"]))
    return Output(result, show_simulation.result(result))


def _check_target(path: Path | None) -> None:
    """Refuse what could not be written before anything is worked out."""
    if path is not None and not path.absolute().parent.is_dir():
        raise InvalidValue("chrome", str(path), "in a folder that is there")


def _predicted(source: GraphFile, given: dict[str, Any]) -> GraphFile:
    """Return the graph with times from what was learned."""
    from dataclasses import replace

    from advisor.cli.source import asked
    from advisor.simulation.task_times import predicted_times

    with asked(given) as asker:
        times = predicted_times(asker.predict, source.graph, dict(given["components"]), given["machine"])
    return replace(source, graph=source.graph.timed(times))
