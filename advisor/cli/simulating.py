"""`advisor simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from advisor.cli import options, show
from advisor.domain import limits
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from advisor.files.graphs import GraphFile
    from advisor.simulation import Request

TARGETS = {
    "plot": (".png",),
    "gantt": (".png", ".html"),
    "chrome": (),
}  # options that write, and what their names end in
CHAIN_SHOWN = 12  # tasks of a critical path that are told
COMPILED_FROM = 5_000_000  # tasks times analyses from which compiling, a few seconds, pays


class Words(click.ParamType[list[str]]):
    """Words with commas between them, each once."""

    name = "NAME[,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Return the words."""
        if isinstance(value, list):
            return value  # pyright: ignore[reportUnknownVariableType] - a default, already converted
        found = list(dict.fromkeys(filter(None, (part.strip() for part in str(value).split(",")))))
        return found or self.fail("there is no name in it", param, ctx)


class Counts(click.ParamType[list[int]]):
    """Numbers of cores: 4, 1..64, 1,2,4..8, or 2..64:2 in steps."""

    name = "P[..Q[:STEP]][,…]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Return the numbers, each once, ascending."""
        if isinstance(value, list):
            return value  # pyright: ignore[reportUnknownVariableType] - a default, already converted
        found = set[int]()
        for part in str(value).split(","):
            try:
                span, _, step = part.partition(":")
                low, _, high = span.partition("..")
                counts = range(int(low), int(high or low) + 1, int(step or 1))
            except ValueError:
                self.fail(f"{part!r} is not a number of cores like 4, or a range like 1..64 or 2..64:2", param, ctx)
            if not counts:
                self.fail(f"{part!r} is empty: a range begins with its smallest number", param, ctx)
            if counts[0] < 1 or counts[-1] > limits.SIMULATE_CORES_MAX:
                self.fail(f"{part!r} is outside 1..{limits.SIMULATE_CORES_MAX}", param, ctx)
            found.update(counts)
        return sorted(found)


@click.command("simulate", cls=options.Command)
@click.argument("graph", metavar="GRAPH")
@click.option("--cores", type=Counts(), default="1,2,4,8", show_default=True, help="Numbers of cores.")
@click.option(
    "--policy", "policies", type=Words(), default="fifo", show_default=True, help="Policies; a wrong name lists them."
)
@click.option("--contention", help="What running tasks cost each other, MODEL:key=value,…[+lock:hold=…].")
@click.option("--measured-alone", is_flag=True, help="The times hold the overhead that a task has when it runs alone.")
@click.option("--speeds", type=options.Numbers(), help="Speed of each processor; their number is the number of cores.")
@click.option(
    "--metric",
    "metrics",
    type=Words(),
    default=[],
    help="Tell these too (idle, critical_path, …; a wrong name lists them).",
)
@click.option("--seed", default=0, show_default=True, help="Of work_stealing.")
@click.option("--burden-ns", default=0.0, show_default=True, help="Cost of a task's creation, for the burdened bound.")
@click.option("--advise", is_flag=True, help="Say what would help, in sentences.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the speedups into this PNG.")
@click.option(
    "--gantt", type=click.Path(path_type=Path), help="Draw who runs what when: a .png, or a .html that zooms."
)
@click.option("--chrome", type=click.Path(path_type=Path), help="Write the schedule as a Chrome trace (JSON).")
@click.option(
    "--component",
    "components",
    type=options.KeyText(),
    multiple=True,
    help="Component that a task type stands for, TYPE=NAME.",
)
@click.option("--shared", default=1.0, show_default=True, help="Part of the times' variance that a type's tasks share.")
@options.machine
@options.level
@options.learned
@options.as_json
def simulate_command(graph: str, as_json: bool, **given: Any) -> None:
    """Compute what executing a task graph would take, on each number of cores and with each policy, without running it.

    GRAPH is a file (.json, .stg, .dot, .gv, .events) or one of the paper's five programs: mp3d, psim, locusroute, polyroots,
    dynprog.
    Pictures and traces show the first policy on the most cores. With --socket, --tcp, --state or --table the tasks' times
    are predicted by what was learned, by task type and size, and each makespan has an interval.
    """
    predicted = any(given[key] for key in ("socket", "tcp", "state", "table"))
    if given["components"] and not predicted:
        raise InvalidValue(
            "component", dict(given["components"]), "with --socket, --tcp, --state or --table, which predict"
        )
    _check_targets(given)
    source = _source(graph, timed=not predicted)
    request = _request(given)
    if predicted:
        source, request = _predicted(source, request, given)
    from advisor.simulation import answer, use_compiled

    if len(source.graph) * len(request.cores) * len(request.policies) >= COMPILED_FROM:
        use_compiled()
    result = answer(source.graph, request)
    result["graph"] = source.name
    if source.measured is not None:
        result["measured"] = source.measured
    if source.cores:
        result["machines"] = list(source.cores)
    result |= _drawn(source, request, result, given)
    if as_json:
        click.echo(json.dumps(result))
    else:
        show_result(result)


def _check_targets(given: dict[str, Any]) -> None:
    """Refuse what could not be written before anything is worked out."""
    for kind, suffixes in TARGETS.items():
        path: Path | None = given[kind]
        if path is None:
            continue
        if suffixes and path.suffix.lower() not in suffixes:
            raise InvalidValue(kind, path.name, f"a name that ends in {' or '.join(suffixes)}")
        if not path.absolute().parent.is_dir():
            raise InvalidValue(kind, str(path), "in a folder that is there")


def _source(graph: str, *, timed: bool) -> GraphFile:
    from advisor.files.graphs import GraphFile, read_graph
    from advisor.simulation.shapes import SHAPES

    if graph in SHAPES and not Path(graph).exists():
        return GraphFile(SHAPES[graph](), graph)
    return read_graph(graph, timed=timed)


def _request(given: dict[str, Any]) -> Request:
    from advisor.simulation import Request, contention_of_text
    from advisor.simulation.requests import PLAIN

    speeds = given["speeds"]
    return Request(
        cores=[len(speeds)] if speeds else given["cores"],
        policies=given["policies"],
        contention=contention_of_text(given["contention"]) if given["contention"] else None,
        measured_alone=given["measured_alone"],
        speeds=speeds,
        metrics=(*PLAIN, *given["metrics"]),
        seed=given["seed"],
        burden_ns=given["burden_ns"],
        advise=given["advise"],
    )


def _predicted(source: GraphFile, request: Request, given: dict[str, Any]) -> tuple[GraphFile, Request]:
    """Return the graph with times from what was learned, and the request with their intervals."""
    from dataclasses import replace

    import numpy as np

    from advisor.cli.source import asked
    from advisor.engine.task_times import TaskTimes, predicting
    from advisor.simulation.ensembles import uncertain

    graph = source.graph
    found = TaskTimes(graph.times, graph.times, graph.times)
    kinds, sizes = (graph.columns.get(name, np.ones(len(graph))) for name in ("type", "size"))
    with asked(given) as advisor:
        for _ in predicting(
            advisor, found, unit=graph.unit, types=graph.types, kinds=kinds, sizes=sizes,
            components=dict(given["components"]), level=given["level"], machine=given["machine"],
            parts=graph.columns.get("part"),
        ):  # fmt: skip
            pass
    times = uncertain(found.times, found.low, found.high, given["level"])
    return replace(source, graph=graph.timed(found.times)), replace(request, uncertain=times, shared=given["shared"])


def _drawn(source: GraphFile, request: Request, result: dict[str, Any], given: dict[str, Any]) -> dict[str, str]:
    """Draw what was asked for; return the paths."""
    if not (given["plot"] or given["gantt"] or given["chrome"]):
        return {}
    from advisor.files.chrome import write_chrome
    from advisor.simulation.requests import prepare

    found: dict[str, str] = {}
    if given["plot"]:
        from advisor.pictures.schedules import draw_speedups

        found["plot"] = str(draw_speedups(given["plot"], f"{source.name}: predicted speedup", result))
    if given["gantt"] or given["chrome"]:
        ready = prepare(source.graph, request)
        shown = ready.run(max(request.cores), ready.policies[0], trace=True)
        if given["gantt"]:
            from advisor.pictures.schedules import draw_gantt

            found["gantt"] = str(draw_gantt(given["gantt"], source.name, shown))
        if given["chrome"]:
            found["chrome"] = str(write_chrome(shown, given["chrome"]))
    return found


def show_result(result: dict[str, Any]) -> None:
    """Print a table of the analyses, and the advice."""
    from advisor.simulation.words import told_time

    def time(value: float | None) -> str:
        return "" if value is None else told_time(value, result["unit"])

    click.echo(
        f"{result['graph']}: {show.several(result['tasks'], 'task')}, {show.several(result['edges'], 'edge')}, "
        f"work {time(result['work'])}, longest path {time(result['span'])}"
    )
    if "measured" in result or "machines" in result:
        took = f"took {time(result['measured'])}" if "measured" in result else "ran"
        machines = result.get("machines", ())
        where = (
            f" on {show.several(sum(machines), 'core')} of {show.several(len(machines), 'machine')}" if machines else ""
        )
        click.echo(f"When it was recorded it {took}{where}.")
    interval = ["interval"] if "makespan_low" in result["results"][0] else []
    stochastic = ["Graham", "Kruskal–Weiss"] if "graham" in result["results"][0]["bounds"] else []
    table = show.table("policy", "cores", "makespan", *interval, "speedup", "efficiency", "never below", *stochastic)
    for row in result["results"]:
        bound = row["bounds"]
        table.add_row(
            row["policy"], str(row["cores"]), time(row["makespan"]),
            *(f"{time(row['makespan_low'])} to {time(row['makespan_high'])}" for _ in interval),
            f"{row['speedup']:.2f}", show.percent(row["efficiency"]), time(max(bound["work"], bound["span"])),
            *(time(bound[name]) for name in ("graham", "kruskal_weiss") if stochastic),
        )  # fmt: skip
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=show.PIPE_COLUMNS)).print(table)
    for row in result["results"]:
        for name in (name for name in SHOWN if name in row):
            told = SHOWN[name](row[name], time)
            click.echo(f"{name.replace('_', ' ')}, {row['policy']} on {row['cores']}: {told}")
    for sentence in result.get("advice", ()):
        click.echo(sentence["text"])
    for kind in ("plot", "gantt", "chrome"):
        if kind in result:
            click.echo(f"wrote {result[kind]}")


def _chain(steps: Sequence[Mapping[str, Any]], time: Callable[[float], str]) -> str:
    """Return the critical path in words: its tasks, those in the middle of a long one left out."""
    told = [f"{step['task']} {time(step['start'])} ({step['why']})" for step in steps]
    if len(told) > CHAIN_SHOWN:
        half = CHAIN_SHOWN // 2
        told[half:-half] = [f"… {len(told) - 2 * half} more …"]
    return " → ".join(told) or "nothing"


def _length(steps: Mapping[str, Any], time: Callable[[float], str]) -> str:
    return f"{steps['mean']:.2f} on average, {steps['most']:g} at most"


# How the table's command tells a metric that is no column of it; the rest of each is in the JSON.
SHOWN: Mapping[str, Callable[[Any, Callable[[float], str]], str]] = {
    "idle": lambda found, time: ", ".join(f"{cause.replace('_', ' ')} {time(value)}" for cause, value in found.items()),
    "utilization": lambda found, time: show.percent(found),
    "busy": lambda found, time: ", ".join(time(value) for value in found),
    "critical_path": _chain,
    "ready_length": _length,
    "processes_per_queue": _length,
    "timeline": lambda found, time: "; ".join(
        f"{step['task']} on {step['processor']} from {time(step['start'])} to {time(step['finish'])}" for step in found
    ),
}
