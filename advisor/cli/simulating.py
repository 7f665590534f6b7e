"""`advisor simulate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from advisor.cli import options, show
from advisor.domain import limits

if TYPE_CHECKING:
    from advisor.files.graphs import GraphFile
    from advisor.simulation import Request

COMPILED_FROM = 20_000_000  # tasks times analyses from which compiling, a few seconds, pays


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
            if not counts or counts[0] < 1 or counts[-1] > limits.SIMULATE_CORES_MAX:
                self.fail(f"{part!r} is outside 1..{limits.SIMULATE_CORES_MAX}", param, ctx)
            found.update(counts)
        return sorted(found)


@click.command("simulate", cls=options.Command)
@click.argument("graph", metavar="GRAPH")
@click.option("--cores", type=Counts(), default="1,2,4,8", show_default=True, help="Numbers of cores.")
@click.option("--policy", "policies", default="fifo", show_default=True, help="Policies, with commas between them.")
@click.option("--contention", help="What running tasks cost each other, MODEL:key=value,…[+lock:hold=…].")
@click.option("--measured-alone", is_flag=True, help="The times hold the overhead that a task has when it runs alone.")
@click.option("--speeds", type=options.Numbers(), help="Speed of each processor; their number is the number of cores.")
@click.option("--metric", "metrics", multiple=True, help="Tell this too (idle, critical_path, …); repeatable.")
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

    GRAPH is a file (.json, .stg, .dot) or one of the five programs of the paper: mp3d, psim, locusroute, polyroots, dynprog.
    Pictures and traces show the first policy on the most cores. With --socket, --tcp, --state or --table the tasks' times
    are predicted by what was learned, by task type and size, and each makespan has an interval.
    """
    source = _source(graph)
    request = _request(given)
    if any(given[key] for key in ("socket", "tcp", "state", "table")):
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


def _source(graph: str) -> GraphFile:
    from advisor.files.graphs import GraphFile, read_graph
    from advisor.simulation.shapes import SHAPES

    if graph in SHAPES and not Path(graph).exists():
        return GraphFile(SHAPES[graph](), graph)
    return read_graph(graph)


def _request(given: dict[str, Any]) -> Request:
    from advisor.simulation import Request, contention_of_text
    from advisor.simulation.requests import PLAIN

    speeds = given["speeds"]
    return Request(
        cores=[len(speeds)] if speeds else given["cores"],
        policies=[name.strip() for name in given["policies"].split(",")],
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

    def time(value: float) -> str:
        return told_time(value, result["unit"])

    click.echo(
        f"{result['graph']}: {show.several(result['tasks'], 'task')}, {show.several(result['edges'], 'edge')}, "
        f"work {time(result['work'])}, longest path {time(result['span'])}"
    )
    if "measured" in result:
        click.echo(f"measured when it was recorded: {time(result['measured'])}")
    interval = ["interval"] if "makespan_low" in result["results"][0] else []
    table = show.table(
        "policy", "cores", "makespan", *interval, "speedup", "efficiency", "never below", "Graham", "Kruskal–Weiss"
    )
    for row in result["results"]:
        bound = row["bounds"]
        shown = (row["makespan"], max(bound["work"], bound["span"]), bound["graham"], bound["kruskal_weiss"])
        makespan, least, graham, stochastic = (time(value) for value in shown)
        table.add_row(
            row["policy"], str(row["cores"]), makespan,
            *(f"{time(row['makespan_low'])} to {time(row['makespan_high'])}" for _ in interval),
            f"{row['speedup']:.2f}", show.percent(row["efficiency"]), least, graham, stochastic,
        )  # fmt: skip
    console = Console(highlight=False)
    (console if console.is_terminal else Console(highlight=False, width=show.PIPE_COLUMNS)).print(table)
    for row in result["results"]:
        if "idle" in row:
            causes = ", ".join(f"{cause.replace('_', ' ')} {time(value)}" for cause, value in row["idle"].items())
            click.echo(f"idle, {row['policy']} on {row['cores']}: {causes}")
    for sentence in result.get("advice", ()):
        click.echo(sentence["text"])
    for kind in ("plot", "gantt", "chrome"):
        if kind in result:
            click.echo(f"wrote {result[kind]}")
