"""Gantt pages as the command makes them, with the schedule that its Chrome trace tells, and what a browser shows of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from browser import Browser

from advisor.pictures.kinds import COLOURS

Command = Callable[..., Any]
IDLE = "#f1f1f1"


@dataclass
class Task:
    """What the trace tells of one, in seconds."""

    name: str
    core: int
    start: float
    finish: float


@dataclass
class Rows:
    """Where the rows of cores lie, as the page painted them."""

    left: float
    width: float
    tops: list[float]
    bar: float

    def x(self, time: float, end: float) -> float:
        return self.left + time / end * self.width

    def middle(self, core: int) -> float:
        return self.tops[core] + self.bar / 2


def made(
    folder: Path, advisor: Command, graph: str | list[dict[str, Any]], cores: int, *further: object
) -> tuple[Path, list[Task]]:
    """Write a page and a trace of the same schedule; return the page and what the trace tells."""
    page, trace = folder / "g.html", folder / "t.json"
    if not isinstance(graph, str):
        (folder / "graph.json").write_text(json.dumps({"unit": "s", "tasks": graph}))
        graph = str(folder / "graph.json")
    advisor("simulate", graph, "--cores", cores, "--gantt", page, "--chrome", trace, *further)
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    return page, [
        Task(each["name"], each["tid"] - 1, each["ts"] * 1e-6, (each["ts"] + each["dur"]) * 1e-6) for each in events
    ]


def rows_of(browser: Browser, cores: int, idle: str = IDLE) -> Rows:
    painted = [box for colour, _, *box in browser.run("return spied.rects") if colour == idle][:cores]
    (left,), (width,), (bar,) = ({box[at] for box in painted} for at in (0, 2, 3))
    return Rows(left, width, [box[1] for box in painted], bar)


def bars(browser: Browser, rows: Rows) -> list[tuple[str, float, float, float]]:
    """Return (colour, left, right, top) of what has a task's colour and the height of a bar."""
    painted = browser.run("return spied.rects")
    return [(c, x, x + w, y) for c, _, x, y, w, h in painted if c.upper() in map(str.upper, COLOURS) and h == rows.bar]


def edge(browser: Browser, rows: Rows, core: int, colour: str, *, last: bool = False) -> int:
    """Return the first (or last) dot of a row, above its critical line, that is of a colour."""
    wanted = tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))
    browser.point(2, 2)  # an outline would cover it
    line = browser.pixels(rows.tops[core] + 3)
    inside = [place for place in range(int(rows.left), int(rows.left + rows.width)) if line[place] == wanted]
    return inside[-1] if last else inside[0]


def mixed(count: int) -> list[dict[str, Any]]:
    """Return tasks of four types in three layers."""
    rng = np.random.default_rng(7)
    return [
        {"id": f"task {n}", "time": round(float(rng.uniform(0.5, 4.0)), 3), "type": f"type {n % 4}",
         "after": [f"task {n // 3}"] if n >= count // 3 else []}
        for n in range(count)
    ]  # fmt: skip


def three() -> list[dict[str, Any]]:
    """Return tasks on two cores: first on core 0 to 2 s, then left there to 4 s and right on core 1 to 5 s."""
    return [
        {"id": "first", "time": 2, "type": "a"},
        {"id": "left", "time": 2, "type": "b", "after": ["first"]},
        {"id": "right", "time": 3, "type": "c", "after": ["first"]},
    ]
