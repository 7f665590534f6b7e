"""`advisor simulate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show_simulation
from advisor.cli.declared import declared
from advisor.cli.options import Output, Unfit, command
from advisor.domain import limits
from advisor.errors import InvalidValue, not_one_of
from advisor.protocol import verbs as v

if TYPE_CHECKING:
    from advisor.files.graphs import GraphFile
    from advisor.simulation import AnalysisRequest

RECORDED = 0  # stands for the number of cores that the graph was recorded on, until its file is read
COMPILED_FROM = 1_000_000  # tasks times analyses from which loading compiled loops, half a second, pays


def _counts_of(text: str) -> list[int]:
    """Return numbers of cores, each once, ascending: 4, 1..64, 1,2,4..8, or 2..64:2 in steps; RECORDED as the file has it."""
    found = set[int]()
    for part in (part.strip() for part in text.split(",")):
        counts = range(RECORDED, RECORDED + 1) if part == "recorded" else options.range_of(part)
        if not counts:
            raise Unfit(f"has {part!r}, which is empty: a range begins with its smallest number")
        if part != "recorded" and (counts[0] < 1 or counts[-1] > limits.SIMULATE_CORES_MAX):
            raise Unfit(f"has {part!r}, which is outside 1..{limits.SIMULATE_CORES_MAX}")
        found.update(counts)
    return sorted(found)


WANTED = "a number of cores like 4, or a range like 1..64 or 2..64:2"
CORES_FORM = options.ValueForm("P[..Q[:STEP]][,…]|recorded", _counts_of, WANTED)
FORMS: dict[str, dict[str, Any]] = {
    "cores": {"type": CORES_FORM, "default": "1,2,4,8", "help": "Numbers of cores."},
    "policies": {"name": "policy", "type": options.WORDS, "default": "fifo", "show_default": True,
                 "help": "Policies; a wrong name lists them."},
    "contention": {"type": str, "help": "What running tasks cost each other, MODEL:key=value,…[+lock:hold=…]."},
    "metrics": {"name": "metric", "type": options.WORDS, "default": [],
                "help": "Tell these too (idle, critical_path, …; a wrong name lists them)."},
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

    GRAPH is a file (.json, .stg, .events) or one of the paper's five programs: mp3d, psim, locusroute, polyroots,
    dynprog.
    A trace shows the first policy on the most cores. With --socket, --tcp, --state or --table the tasks' times
    are predicted by what was learned, by task type and size.
    """
    predicted = any(given[key] for key in ("socket", "tcp", "state", "table"))
    if given["components"] and not predicted:
        raise InvalidValue(
            "component", dict(given["components"]), "with --socket, --tcp, --state or --table, which predict"
        )
    _check_target(given["chrome"])
    source = _source(graph, timed=not predicted)
    request = _request(given, source)
    if predicted:
        source = _predicted(source, given)
    from advisor import kernels
    from advisor.simulation import answer

    if len(source.graph) * len(request.cores) * len(request.policies) >= COMPILED_FROM:
        kernels.load_filled()
    result = answer(source.graph, request)
    result["graph"] = source.name
    if source.measured is not None:
        result["measured"] = source.measured
    if source.cores:
        result["machines"] = list(source.cores)
    if source.cores and source.measured:
        result |= _compared(source, result)
    if given["chrome"]:
        from advisor.files.chrome import write_chrome
        from advisor.simulation.requests import prepare

        ready = prepare(source.graph, request)
        shown = ready.run(max(request.cores), ready.policies[0], trace=True)
        result["chrome"] = str(write_chrome(shown, given["chrome"]))
    return Output(result, show_simulation.result(result))


def _check_target(path: Path | None) -> None:
    """Refuse what could not be written before anything is worked out."""
    if path is not None and not path.absolute().parent.is_dir():
        raise InvalidValue("chrome", str(path), "in a folder that is there")


def _source(graph: str, *, timed: bool) -> GraphFile:
    from advisor.files.graphs import GraphFile, read_graph
    from advisor.simulation.shapes import SHAPES

    if graph in SHAPES and not Path(graph).exists():
        return GraphFile(SHAPES[graph](), graph)
    if not Path(graph).suffix and not Path(graph).exists():
        raise not_one_of("graph", graph, SHAPES, ", or a file")
    return read_graph(graph, timed=timed)


def _request(given: dict[str, Any], source: GraphFile) -> AnalysisRequest:
    from advisor.simulation import AnalysisRequest, contention_of_text
    from advisor.simulation.requests import PLAIN

    speeds, cores = given["speeds"], given["cores"]
    if RECORDED in cores:
        if not source.cores:
            raise InvalidValue("cores", "recorded", "numbers: the file does not tell on which machines it ran")
        cores = sorted({count or sum(source.cores) for count in cores})
    return AnalysisRequest(
        cores=[len(speeds)] if speeds else cores,
        policies=given["policies"],
        contention=contention_of_text(given["contention"]) if given["contention"] else None,
        speeds=speeds,
        metrics=(*PLAIN, *given["metrics"]),
        **{key: given[key] for key in ("measured_alone", "seed", "burden_ns", "advise")},
    )


def _predicted(source: GraphFile, given: dict[str, Any]) -> GraphFile:
    """Return the graph with times from what was learned."""
    from dataclasses import replace

    from advisor.cli.source import asked
    from advisor.simulation.task_times import predicted_times

    with asked(given) as asker:
        times = predicted_times(asker.predict, source.graph, dict(given["components"]), given["machine"])
    return replace(source, graph=source.graph.timed(times))


def _compared(source: GraphFile, result: dict[str, Any]) -> dict[str, Any]:
    """Return what the first policy is predicted to take on the machines that ran the graph, beside what was measured."""
    cores = sum(source.cores)
    predicted = next((row["makespan"] for row in result["results"] if row["cores"] == cores), None)
    if predicted is None or not source.measured:
        return {}
    running = result["work"] / source.measured
    return {
        "recorded": {
            "cores": cores, "predicted": predicted, "measured": source.measured, "error": predicted / source.measured - 1.0,
            "mean_running": running,
        }
    }  # fmt: skip
