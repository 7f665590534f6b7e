"""The Gantt page's own program, run by a real JavaScript engine: it draws, zooms, pans and names the task pointed at."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from advisor.domain.task_graphs import task_graph
from advisor.pictures.schedules import draw_gantt
from advisor.simulation import simulate
from advisor.simulation.shapes import psim

NODE = shutil.which("node") or shutil.which("nodejs")

# As much of a browser as the page asks for: a canvas that keeps what was filled, elements, events.
BROWSER = """
const handlers = {}, made = {}; let filled = [], texts = [];
const pen = new Proxy({}, { get: (_, name) => name === "fillRect" ? (x, y, w, h) => filled.push([x, y, w, h])
  : name === "fillText" ? text => texts.push(text) : name === "measureText" ? text => ({ width: 6 * text.length }) : () => {},
  set: () => true });
function element(id) {
  return made[id] ??= { style: {}, clientWidth: 856, clientHeight: 278, textContent: "", append() {}, replaceChildren() {},
    getContext: () => pen, getBoundingClientRect: () => ({ left: 0, top: 0 }), setPointerCapture() {},
    addEventListener: (kind, act) => { handlers[id + " " + kind] = act; } };
}
let number = 0;
globalThis.document = { getElementById: element, createElement: () => element("made" + number++) };
globalThis.window = { devicePixelRatio: 2, addEventListener: () => {} };
function happen(what, event) {
  filled = []; texts = [];
  handlers[what]({ preventDefault() {}, pointerId: 1, ...event });
  return shown();
}
function shown() {
  return { filled: filled.length, wide: Math.max(...filled.map(each => each[2])), texts, told: element("told").textContent };
}
"""


def ran(page: Path, script: str) -> Any:
    """Run the page's program, then `script`; return what it prints as JSON."""
    program = re.search(r"<script>(.*)</script>", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    done = subprocess.run(
        [NODE, "-"], input=f"{BROWSER}{{{program}}}{script}", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(NODE is None, reason="no JavaScript engine here")
def test_the_page_draws_zooms_pans_and_names(tmp_path: Path) -> None:
    graph = task_graph([1.0, 2.0, 3.0], [(0, 1), (0, 2)], names=("load", "left", "right"), unit="ms")
    page = draw_gantt(tmp_path / "g.html", "three", simulate(graph, 2, trace=True))
    found = ran(page, """
        const first = shown();
        const named = happen("chart pointermove", { clientX: 56 + 300, clientY: 20 });
        const idle = happen("chart pointermove", { clientX: 56 + 100, clientY: 150 });
        const near = happen("chart wheel", { deltaY: -700, clientX: 56 + 300, clientY: 20, shiftKey: false });
        happen("chart pointerdown", { clientX: 300, clientY: 20 });
        const moved = happen("chart pointermove", { clientX: -500, clientY: 20 });
        happen("chart pointerup", {});
        const key = happen("chart keydown", { key: "-" });
        const all = happen("all click", {});
        console.log(JSON.stringify({ first, named, idle, near, moved, key, all }));
    """)  # fmt: skip
    assert {"load", "left", "right", "core 0", "core 1"} <= set(found["first"]["texts"])
    assert found["named"]["told"] == "left: 2 ms, from 1 ms to 3 ms on core 0"
    assert found["idle"]["told"] == found["named"]["told"]  # nothing there: what was told stays
    assert found["near"]["wide"] >= found["first"]["wide"]
    assert "load" not in found["moved"]["texts"]  # panned to the end, zoomed in
    assert set(found["all"]["texts"]) == set(found["first"]["texts"])


@pytest.mark.skipif(NODE is None, reason="no JavaScript engine here")
@pytest.mark.parametrize("title", ["{{DATA}}", "\\", "</title><script>"])
def test_names_that_look_like_parts_of_the_page_are_names(tmp_path: Path, title: str) -> None:
    names = ("{{TITLE}}", ', console.log("hostile")//', "<!--<script>")
    page = draw_gantt(tmp_path / "g.html", title, simulate(task_graph([1.0, 1.0, 1.0], names=names), 1, trace=True))
    assert ran(page, "console.log(JSON.stringify(shown().texts))")[:3] == list(names)
    assert page.read_text(encoding="utf-8").count("</script>") == 1


@pytest.mark.skipif(NODE is None, reason="no JavaScript engine here")
def test_forty_thousand_tasks_are_drawn_by_the_dot(tmp_path: Path) -> None:
    page = draw_gantt(tmp_path / "g.html", "psim", simulate(psim(), 8, trace=True))
    found = ran(page, """
        const first = shown();
        for (let k = 0; k < 30; k++) happen("chart wheel", { deltaY: -400, clientX: 456, clientY: 20, shiftKey: k > 20 });
        const near = shown();
        console.log(JSON.stringify({ first, near }));
    """)  # fmt: skip
    assert (
        found["first"]["filled"] < 8 * 2 * 1600 + 900
    )  # no more than there are dots, with the critical path and the ready line
    assert 0 < found["near"]["filled"] < found["first"]["filled"]
