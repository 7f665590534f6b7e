"""Pictures of analysed task graphs: speedups over cores, and Gantt charts as PNG or as one HTML file that zooms."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue, Unsupported
from advisor.pictures import charts
from advisor.pictures.gantt_page import gantt_page
from advisor.pictures.kinds import COLOURS, kinds_of
from advisor.simulation.analysis import Execution
from advisor.simulation.metrics import critical_path, ready_length, traced
from advisor.simulation.words import reported_time, scaled

COLUMNS = 1600  # of a PNG chart: more bars than that on one processor are drawn as how busy it is in each
NAMED_MAX = 500  # tasks that have their name written on them, where there are no more and it fits
CHARACTERS = 180  # of that writing that fit across a PNG chart
WIDTH_INCHES = 12.5  # of a PNG chart
HEAD_INCHES = 1.0  # of its title and its axis
ROW_INCHES = 0.26  # of a core's row
ROWS_INCHES_MAX = 12.0  # of all of them
READY_INCHES = 1.0  # of what was ready, below
LIGHT = 0.1791  # luminance from which black stands out more than white does


def draw_speedups(path: str | Path, title: str, result: Mapping[str, Any]) -> Path:
    """Draw speedup and makespan over cores, a line a policy, from an answer of `advisor.simulation.answer`.

    Raises Unsupported when matplotlib is not installed; InvalidValue when the file cannot be written.
    """
    rows = result["results"]
    names = list(dict.fromkeys(row["policy"] for row in rows))
    if len({row["cores"] for row in rows}) == 1:
        return _one_count(path, title, result)
    cores = np.asarray(sorted({row["cores"] for row in rows}), np.float64)
    factor, unit = scaled(max(row["makespan"] for row in rows), result["unit"])
    speedups: list[charts.Series] = []
    times: list[charts.Series] = []
    for place, name in enumerate(names):
        mine = sorted((row for row in rows if row["policy"] == name), key=lambda row: row["cores"])
        x = np.asarray([row["cores"] for row in mine], np.float64)
        speedups.append(charts.Series(name, x, np.asarray([row["speedup"] for row in mine]), colour=place))
        times.append(charts.Series(name, x, np.asarray([row["makespan"] for row in mine]) * factor, colour=place))
    # What no schedule is below, whatever the policy: it knows of the processors' speeds.
    least_of = {row["cores"]: max(row["bounds"]["work"], row["bounds"]["span"]) for row in rows}
    least = np.asarray([least_of[int(count)] for count in cores])
    above = np.divide(result["work"], least, out=cores.copy(), where=least > 0)
    speedups.append(charts.Series("no schedule above", cores, above, style="dashes", colour=charts.BLACK))
    times.append(charts.Series("no schedule below", cores, least * factor, style="dashes", colour=charts.BLACK))
    return charts.draw(
        path,
        title,
        [
            charts.Panel("Speedup over one core", "cores", "speedup", speedups),
            charts.Panel(
                "Makespan",
                "cores",
                f"time [{unit}]" if unit else "time",
                times,
                log_y=min(row["makespan"] for row in rows) > 0,
            ),
        ],
    )


def _one_count(path: str | Path, title: str, result: Mapping[str, Any]) -> Path:
    """Draw speedup and makespan on one number of cores: a bar a policy."""
    rows = result["results"]
    factor, unit = scaled(max(row["makespan"] for row in rows), result["unit"])
    names = [row["policy"] for row in rows]
    cores: int = rows[0]["cores"]
    least = max(rows[0]["bounds"]["work"], rows[0]["bounds"]["span"])
    above = {result["work"] / least: "no schedule above"} if least > 0 else {}
    on = f"on {cores} core{'' if cores == 1 else 's'}"
    return charts.draw(
        path,
        title,
        [
            charts.Panel(
                f"Speedup {on} over one core", "", "speedup",
                bars=charts.Bars(names, {"": [row["speedup"] for row in rows]}), marks_y=above,
            ),
            charts.Panel(
                f"Makespan {on}", "", f"time [{unit}]" if unit else "time",
                bars=charts.Bars(names, {"": [row["makespan"] * factor for row in rows]}, "{:.4g}"),
                marks_y={least * factor: "no schedule below"} if least > 0 else {},
            ),
        ],
    )  # fmt: skip


def draw_gantt(path: str | Path, title: str, execution: Execution) -> Path:
    """Draw who runs what when: a PNG, or for a name that ends in .html one file without dependencies that zooms and pans.

    Raises Unsupported when matplotlib is not installed (PNG only); InvalidValue when the suffix is another one, the file
    cannot be written, or no trace was kept.
    """
    target = Path(path)
    time = reported_time(execution.makespan, execution.program.graph.unit)
    heading = f"{title}: {execution.policy} on {execution.cores} {'core' if execution.cores == 1 else 'cores'}, {time}"
    try:
        if target.suffix.lower() in (".html", ".htm"):
            target.write_text(gantt_page(heading, execution), encoding="utf-8")
            return target
        if target.suffix.lower() != ".png":
            raise InvalidValue("gantt", target.name, "a name that ends in .png or .html")
        return _gantt_png(target, heading, execution)
    except OSError as error:
        raise InvalidValue("gantt", str(path), "a file that can be written", error.strerror or "") from error


def _gantt_png(path: Path, title: str, execution: Execution) -> Path:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, loaded where it is used
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.patches import Patch  # noqa: PLC0415
    except ImportError as error:
        raise Unsupported(
            "pictures need matplotlib, which is not installed", field="plot", hint="pip install matplotlib"
        ) from error
    trace, graph = traced(execution), execution.program.graph
    rows = min(ROWS_INCHES_MAX, max(2 * READY_INCHES, ROW_INCHES * execution.cores))
    figure = Figure(figsize=(WIDTH_INCHES, rows + READY_INCHES + HEAD_INCHES), layout="constrained")
    FigureCanvasAgg(figure)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(rows, READY_INCHES))
    kinds, names = kinds_of(execution)
    factor, unit = scaled(execution.makespan, graph.unit)
    per_tick = factor / graph.ticks_per_unit
    starts, finishes = trace.starts * per_tick, trace.finishes * per_tick
    if len(graph) <= COLUMNS * 4:
        each: list[int] = kinds.tolist()
        colours = [COLOURS[kind] for kind in each]
        upper.barh(
            trace.processors, finishes - starts, left=starts, height=0.86, color=colours, edgecolor="white",
            linewidth=0.4 if len(graph) < COLUMNS else 0.0,
        )  # fmt: skip
        _critical(upper, execution, per_tick)
    else:
        _busy_shares(upper, execution, kinds, per_tick)
    if 0 < len(graph) <= NAMED_MAX:
        _named(upper, execution, kinds, per_tick)
    upper.set_ylim(execution.cores - 0.4, -0.6)
    upper.set_ylabel("core")
    upper.yaxis.get_major_locator().set_params(integer=True)
    upper.set_title(charts.headline(title, 2 * charts.HEADLINE), fontsize=12, fontweight="bold")
    if len(names) > 1:
        handles = [
            Patch(color=COLOURS[min(place, len(COLOURS) - 1)], label=charts.literal(charts.shortened(name)))
            for place, name in enumerate(names)
        ]
        upper.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, frameon=False)
    _ready(lower, execution, per_tick)
    lower.set_xlabel(f"time [{unit}]" if unit else "time")
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
    words = (
        f"Gantt chart of {len(graph)} tasks on {execution.cores} cores; colours: {', '.join(names) or 'none'}. "
        "Underlined in black: the critical path through the schedule. Below: how many tasks were ready."
    )
    figure.savefig(path, dpi=charts.DOTS_PER_INCH, format="png", metadata=charts.described(title, words))
    return path


def _named(axes: Any, execution: Execution, kinds: NDArray[np.int64], per_tick: float) -> None:
    """Write the names of tasks on them where they fit."""
    trace, graph = traced(execution), execution.program.graph
    rows = zip(trace.starts.tolist(), trace.finishes.tolist(), trace.processors.tolist(), kinds.tolist(), strict=True)
    for task, (start, finish, who, kind) in enumerate(rows):
        if (finish - start) * CHARACTERS >= len(graph.name(task)) * execution.ticks > 0:
            axes.text(
                (start + finish) / 2 * per_tick, who, charts.literal(graph.name(task)), ha="center", va="center", fontsize=8,
                color=ink_on(COLOURS[int(kind)]),
            )  # fmt: skip


def ink_on(colour: str) -> str:
    """Return black or white, whichever stands out more from a colour (relative luminance as WCAG has it)."""
    parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255.0
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return "black" if float(linear @ (0.2126, 0.7152, 0.0722)) > LIGHT else "white"


def _ready(axes: Any, execution: Execution, per_tick: float) -> None:
    """Show how many tasks were ready."""
    ready = ready_length(execution)
    axes.fill_between(ready.times * per_tick, ready.values, step="post", color="#bbbbbb")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, max(execution.ticks * per_tick, 1e-12))
    axes.set_ylabel("ready tasks")
    axes.yaxis.get_major_locator().set_params(integer=True)


def _critical(axes: Any, execution: Execution, per_tick: float) -> None:
    """Underline the tasks of the critical path through the schedule."""
    trace = traced(execution)
    steps = [step for step in critical_path(execution) if step.finish > step.start]
    rows = [int(trace.processors[step.task]) + 0.43 for step in steps]
    left, right = [step.start * per_tick for step in steps], [step.finish * per_tick for step in steps]
    axes.hlines(rows, left, right, colors="#000000", linewidth=2.0)


def _busy_shares(axes: Any, execution: Execution, kinds: NDArray[np.int64], per_tick: float) -> None:
    """Show, where bars would be narrower than a dot, what each processor does in each column: colours mixed by their shares."""
    trace, cores = traced(execution), execution.cores
    edges = np.linspace(0, max(execution.ticks, 1), COLUMNS + 1)
    picture = np.ones((cores, COLUMNS, 3))
    order = np.lexsort((trace.finishes, trace.starts, trace.processors))
    cuts = np.searchsorted(trace.processors[order], np.arange(cores + 1))
    for processor in range(cores):
        mine = order[cuts[processor] : cuts[processor + 1]]
        present: list[int] = np.unique(kinds[mine]).tolist()
        for kind in present:
            some = mine[kinds[mine] == kind]
            # Busy time up to t, exactly: a processor runs one task at a time, so its bounds ascend.
            bounds = np.column_stack([trace.starts[some], trace.finishes[some]]).ravel().astype(np.float64)
            busy = np.concatenate([[0.0], np.cumsum(np.diff(bounds) * (np.arange(len(bounds) - 1) % 2 == 0))])
            share = np.diff(np.interp(edges, bounds, busy)) / np.diff(edges)
            colour = np.array([int(COLOURS[kind][place : place + 2], 16) for place in (1, 3, 5)]) / 255.0
            picture[processor] -= share[:, None] * (1.0 - colour)
    extent = (0, execution.ticks * per_tick, cores - 0.5, -0.5)
    axes.imshow(np.clip(picture, 0.0, 1.0), aspect="auto", interpolation="nearest", extent=extent)
