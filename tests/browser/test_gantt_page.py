"""The Gantt page that the command writes, opened in a real browser, against the schedule that its Chrome trace tells.

The bar of a task lies where its times say; the wheel keeps the time under the pointer; what a task is called stays text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser
from selenium.webdriver import Keys

from advisor.pictures.kinds import COLOURS

Command = Callable[..., Any]
IDLE = "#f1f1f1"
HOSTILE = (
    "</script><script>window.hit = 1</script>",
    "\"quotes\" & 'single' <b onclick='window.hit = 1'>",
    "<img src=x onerror='window.hit = 1'>",
    "<!--<script>",
    "{{DATA}} {{TITLE}}",
    "\\u003cscript\\u003e \\ $& $1",
    "🚀 漢字 é",
    "שלום עולם",
    "\u202eoverride\u2066",
)


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


def test_every_task_has_one_bar_where_its_times_say(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, tasks = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page, 1000, 600)
    rows, end = rows_of(browser, 4), max(task.finish for task in tasks)
    found = bars(browser, rows)
    assert len(found) == len(tasks) == 60
    wanted = sorted((rows.tops[each.core], rows.x(each.start, end), rows.x(each.finish, end)) for each in tasks)
    for (top, left, right), (_, x, until, y) in zip(
        wanted, sorted(found, key=lambda bar: (bar[3], bar[1])), strict=True
    ):
        assert y == top
        assert x == pytest.approx(left, abs=0.01)
        assert right - 0.65 <= until <= right + 0.01
    # The names stand on their bars, and the axis tells the times of the places that its labels have.
    texts = {text: (x, y) for text, x, y, _ in browser.texts()}
    for each in tasks:
        if each.name in texts:
            x, y = texts[each.name]
            assert rows.x(each.start, end) <= x <= rows.x(each.finish, end)
            assert y == pytest.approx(rows.middle(each.core))
    assert sum(each.name in texts for each in tasks) > 30
    labels = {float(text.removesuffix(" s")): x for text, (x, _) in texts.items() if text.endswith(" s")}
    assert len(labels) > 4
    for time, x in labels.items():
        assert x == pytest.approx(rows.x(time, end), abs=0.01)
    assert {f"core {number}" for number in range(4)} <= set(texts)


def test_what_was_ready_and_the_critical_path_are_drawn(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, tasks = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page)
    rows, end = rows_of(browser, 4), max(task.finish for task in tasks)
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    counted = [(event["ts"] * 1e-6, event["args"]["ready"]) for event in events if event["ph"] == "C"]
    painted = browser.run("return spied.rects")
    ready = [(x, w, h) for colour, _, x, _, w, h in painted if colour == "#b4b4b4"]
    (panel,) = {box[3] for colour, _, *box in painted if colour == IDLE} - {rows.bar}
    most = max(value for _, value in counted)
    heights = {round(x - rows.left): h for x, _, h in ready}
    for dot in range(round(rows.width)):
        low, high = dot / rows.width * end, (dot + 1) / rows.width * end
        before = [value for time, value in counted if time <= low + 1e-9]
        within = [value for time, value in counted if low + 1e-9 < time < high - 1e-9]
        assert heights.get(dot, 0.0) == pytest.approx(panel * max([*before[-1:], *within]) / most, abs=1e-6)
    assert {text for text, *_ in browser.texts()} >= {"ready", "0", f"{most:.0f}"}
    # Black lines below the bars: as long in all as the path, which begins and ends with the schedule and has no gap here.
    marks = sorted((x, x + w) for colour, _, x, _, w, h in painted if colour == "#000000" and h <= 3.0)
    assert marks[0][0] == pytest.approx(rows.left)
    assert marks[-1][1] == pytest.approx(rows.x(end, end))
    for (_, right), (left, _) in pairwise(marks):
        assert left <= right + 0.5


def test_tasks_narrower_than_dots_are_painted_by_their_share_of_each(
    tmp_path: Path, browser: Browser, advisor: Command
) -> None:
    rng = np.random.default_rng(3)
    chain = [{"id": n, "time": float(rng.choice([0.01, 0.4, 1.0])), "type": f"type {n % 3}"} for n in range(20_000)]
    for n in range(1, 20_000):  # waits for one of the other core now and then: idle time that is no dot wide
        chain[n]["after"] = [n - 1] if n % 7 == 0 else []
    page, tasks = made(tmp_path, advisor, chain, 2)
    browser.open(page, 1000, 400)
    rows, end = rows_of(browser, 2), max(task.finish for task in tasks)
    assert bars(browser, rows) == []
    dots = round(rows.width)
    colours = {f"type {kind}": place for place, kind in enumerate(order_of_time(chain))}
    for core in (0, 1):
        shares = np.zeros((dots, 3))
        for task in (task for task in tasks if task.core == core):
            low, high = task.start / end * dots, task.finish / end * dots
            kind = colours[f"type {int(task.name) % 3}"]
            for dot in range(int(low), min(dots, int(high) + 1)):
                shares[dot, kind] += max(0.0, min(dot + 1, high) - max(dot, low))
        paints = np.array([[int(COLOURS[kind][at : at + 2], 16) for at in (1, 3, 5)] for kind in range(3)], np.float64)
        busy = shares.sum(axis=1, keepdims=True)
        wanted = shares @ paints + (1.0 - busy) * 0xF1
        line = np.array(browser.pixels(rows.tops[core] + 3)[int(rows.left) :][:dots], np.float64)
        assert np.abs(line - wanted).max() <= 3.0  # of 255: rounded twice
        assert busy.min() > 0.2


def order_of_time(chain: list[dict[str, Any]]) -> list[int]:
    times = [sum(task["time"] for task in chain if task["type"] == f"type {kind}") for kind in range(3)]
    return sorted(range(3), key=lambda kind: -times[kind])


def test_the_wheel_keeps_the_time_under_the_pointer(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    second = bars(browser, rows)[1][0]  # the colour of what begins at 2 s
    whole = browser.drawn()
    for turn in (-300, -400, 250):
        before = edge(browser, rows, 0, second)
        browser.wheel(left + before, top + rows.middle(0), turn)
        assert edge(browser, rows, 0, second) == pytest.approx(before, abs=1)
    assert browser.drawn() != whole
    # 450 in all: e^0.675 times as wide as at first, as far as it can be seen.
    labels = {text: x for text, x, *_ in browser.texts() if text.endswith(" s")}
    (t1, x1), (t2, x2) = list(labels.items())[:2]
    scale = (x2 - x1) / (float(t2[:-2]) - float(t1[:-2]))
    assert scale == pytest.approx(rows.width / 5.0 * np.exp(0.0015 * 450), rel=1e-3)
    browser.wheel(left + 500, top + 20, 5000)
    browser.point(2, 2)
    assert browser.drawn() == whole  # no further out than all


def test_zoom_ends_at_a_tick_and_every_label_still_differs(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    at = left + rows.x(2.0, 5.0)
    for _ in range(6):
        browser.wheel(at, top + rows.middle(0), -4000)
    deepest = [text for text, *_ in browser.texts() if text.endswith(" s")]
    assert len(set(deepest)) == len(deepest) >= 2
    span = float(deepest[-1][:-2]) - float(deepest[0][:-2])
    assert 0 < span <= 1e-9  # a nanosecond, which is a tick
    assert float(deepest[0][:-2]) == pytest.approx((round(at) - left - rows.left) / rows.width * 5.0, abs=2e-9)
    browser.wheel(at, top + rows.middle(0), -4000)
    assert [text for text, *_ in browser.texts() if text.endswith(" s")] == deepest


def test_shift_and_wheel_zoom_the_rows(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, "mp3d", 64)
    browser.open(page)
    left, top = browser.origin()
    rows = rows_of(browser, 64)
    at = rows.middle(20)
    browser.run("document.getElementById('chart').focus()")
    browser.wheel(left + 300, top + at, -900, shift=True)
    told = {text: y for text, _, y, _ in browser.texts() if text.startswith("core ")}
    assert "core 20" in told
    assert 0 < len(told) < 30
    zoomed = (told["core 21"] - told["core 20"]) / (rows.tops[21] - rows.tops[20])
    assert zoomed == pytest.approx(np.exp(0.0015 * 900), rel=1e-3)
    assert told["core 20"] == pytest.approx(at, abs=0.5 * zoomed)
    whole = browser.drawn()
    browser.press(Keys.ESCAPE)
    browser.run(  # as browsers tell of a wheel that is turned with Shift
        """const [clientX, clientY] = arguments, far = { deltaX: -900, deltaY: 0, shiftKey: true, clientX, clientY };
        document.getElementById("chart").dispatchEvent(new WheelEvent("wheel", far));""",
        left + 300,
        round(top + at),
    )
    browser.settle()
    assert browser.drawn() == whole
    starts = [text for text, *_ in browser.texts() if text.startswith("0 ")]
    assert starts  # times are as they were
    browser.drag([(left + 300, top + 100), (left + 300, top + 60), (left + 300, top + 20)])
    moved = {text: y for text, _, y, _ in browser.texts() if text.startswith("core ")}
    assert moved["core 21"] == pytest.approx(told["core 21"] - 80, abs=0.01)


def test_dragging_pans_as_far_as_there_is_something(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    whole, second = browser.drawn(), bars(browser, rows)[1][0]
    y = top + rows.middle(0)
    browser.drag([(left + 300, y), (left + 200, y)])
    assert edge(browser, rows, 0, second) == pytest.approx(rows.x(2.0, 5.0), abs=1)  # all is shown: nowhere to go
    browser.wheel(left + rows.x(2.0, 5.0), y, -500)
    before = edge(browser, rows, 0, second)
    browser.drag([(left + 400, y), (left + 380, y), (left + 330, y)])
    assert edge(browser, rows, 0, second) == pytest.approx(before - 70, abs=1)
    browser.drag([(left + 300, y), (left + 900, y), (left + 990, y)])
    browser.drag([(left + 300, y), (left + 900, y), (left + 990, y)])
    assert "0 s" in {text for text, *_ in browser.texts()}  # the beginning, and nothing before it
    browser.press(Keys.ESCAPE)
    browser.point(2, 2)
    assert browser.drawn() == whole


def test_fingers_drag_pinch_and_tap(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    second, y = bars(browser, rows)[1][0], top + rows.middle(0)
    at = left + round(rows.x(2.0, 5.0))
    browser.touch([(at - 50, y), (at + 50, y)], [(at - 75, y), (at + 75, y)], [(at - 100, y), (at + 100, y)])
    labels = {float(text[:-2]): x for text, x, *_ in browser.texts() if text.endswith(" s")}
    (t1, x1), (t2, x2) = list(labels.items())[:2]
    assert (x2 - x1) / (t2 - t1) == pytest.approx(2.0 * rows.width / 5.0, rel=1e-6)  # twice as far apart
    middle = edge(browser, rows, 0, second)
    assert middle == pytest.approx(at - left, abs=2)
    browser.touch([(at, y)], [(at - 30, y)], [(at - 90, y)])
    assert edge(browser, rows, 0, second) == pytest.approx(middle - 90, abs=1)
    browser.touch([(at, y)])
    assert browser.words("told").startswith("left: 2 s")


def test_pointing_tells_a_task_and_leaving_does_not(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    browser.point(left + rows.x(3.0, 5.0), top + rows.middle(0))
    told = "2 s, from 2 s to 4 s on core 0, b"
    assert (browser.tip() or "").split("\n") == ["left", told]
    assert browser.words("told") == f"left: {told}"
    browser.point(left + rows.x(1.0, 5.0), top + rows.middle(0))
    assert browser.words("told") == "first: 2 s, from 0 s to 2 s on core 0, a, on the critical path"
    for x, core in ((1.0, 1), (4.5, 0)):  # idle
        browser.point(left + rows.x(x, 5.0), top + rows.middle(core))
        assert browser.tip() is None
    for x in (rows.left + 3, rows.left + rows.width - 3):  # a tip stays on the page
        browser.point(left + x, top + rows.middle(1 if x > 500 else 0))
        box = browser.run(
            "const box = document.getElementById('tip').getBoundingClientRect(); return [box.left, box.right]"
        )
        assert browser.tip() is not None
        assert 0 <= box[0] < box[1] <= 1000
    browser.point(5, 5)
    assert browser.tip() is None


def test_keys_do_what_the_wheel_and_the_pointer_do(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, whole = rows_of(browser, 2), browser.drawn()
    second = bars(browser, rows)[1][0]
    browser.run("document.getElementById('chart').focus()")
    browser.press("+")
    near = edge(browser, rows, 0, second)
    centre = rows.left + rows.width / 2
    assert near - centre == pytest.approx((rows.x(2.0, 5.0) - centre) / 0.7, abs=1.5)
    browser.press(Keys.ARROW_RIGHT)
    assert edge(browser, rows, 0, second) == pytest.approx(near - 80, abs=1)
    browser.press(Keys.ARROW_LEFT, "-")
    browser.press(Keys.HOME)
    assert browser.drawn() == whole
    browser.press("n")
    assert browser.words("told").startswith("first: ")
    browser.press("n", "n")
    assert browser.words("told").startswith("right: ")
    browser.press("p")
    assert browser.words("told").startswith("left: ")
    browser.press(Keys.ENTER)
    assert [round(x) for _, x, *_ in bars(browser, rows)[:1]] == [round(rows.left)]  # alone, as wide as the chart
    labels = [text for text, *_ in browser.texts() if text.endswith(" s")]
    assert (labels[0], labels[-1]) == ("2 s", "4 s")


def test_a_task_is_found_by_name(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, tasks = made(tmp_path, advisor, mixed(300), 4)
    browser.open(page)
    browser.run("document.getElementById('find').focus()")
    browser.press(*"TASK 17")
    hits = sorted(task.name for task in tasks if "task 17" in task.name)
    assert browser.words("told").startswith(f"{len(hits)} of 300 tasks, ")
    told: list[str] = []
    for _ in hits:
        browser.press(Keys.ENTER)
        told.append(browser.words("told").split(":")[0])
    assert sorted(told) == hits
    at = next(task for task in tasks if task.name == told[-1])
    shown = [float(text[:-2]) for text, *_ in browser.texts() if text.endswith(" s")]
    assert shown[0] <= at.finish
    assert at.start <= shown[-1]
    browser.press("x")
    assert browser.words("told") == "Nothing here has that in its name."


def test_the_chart_follows_the_size_of_the_window(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, tasks = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page, 1000, 600)
    rows, end = rows_of(browser, 4), max(task.finish for task in tasks)
    for width, height in ((1600, 900), (420, 700)):
        browser.resize(width, height)
        now = rows_of(browser, 4)
        assert now.width - rows.width == width - 1000
        right = max(right for _, _, right, _ in bars(browser, now))
        assert right == pytest.approx(now.x(end, end), abs=0.7)
        canvas = browser.run("const c = document.getElementById('chart'); return [c.width, c.clientWidth, scrollX]")
        assert canvas == [width, width, 0]
        assert browser.run("return document.documentElement.scrollWidth") == width  # nothing sticks out
    browser.open(page, 1000, 600, dots=2.0)
    assert browser.run("return document.getElementById('chart').width") == 2000
    assert rows_of(browser, 4).width == rows.width


def test_names_of_any_kind_are_text_and_run_nothing(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    tasks = [{"id": name, "time": 1 + place % 2, "type": name} for place, name in enumerate(HOSTILE)]
    folder = tmp_path / "x"
    folder.mkdir()
    graph = folder / "<img src=y onerror='window.hit=1'>&amp;.json"
    graph.write_text(json.dumps({"unit": "s", "tasks": tasks}))
    page, schedule = made(folder, advisor, str(graph), 3)
    browser.open(page, 1600, 700)
    rows, (left, top), end = rows_of(browser, 3), browser.origin(), max(task.finish for task in schedule)
    assert browser.driver.title.startswith("<img src=y onerror='window.hit=1'>&amp;: fifo")
    for task in schedule:
        browser.point(left + rows.x((task.start + task.finish) / 2, end), top + rows.middle(task.core))
        assert browser.run("return document.querySelector('#tip bdi').textContent") == task.name
        assert browser.words("told").startswith(f"{task.name}: ")
    shown = {text for text, *_ in browser.texts()}
    assert {name for name in HOSTILE if len(name) < 25} <= shown
    browser.run("document.getElementById('words').open = true")
    browser.settle()
    keys = browser.run("return Array.from(document.querySelectorAll('#keys bdi'), key => key.textContent)")
    assert set(keys) <= {*HOSTILE, "others"}
    assert len(keys) == len(COLOURS)
    cells = browser.run("return Array.from(document.querySelectorAll('tbody th bdi'), cell => cell.textContent)")
    assert set(cells) & set(HOSTILE)
    assert browser.run("return document.querySelectorAll('img, b[onclick], iframe').length") == 0
    assert browser.run("return document.scripts.length") == 2
    assert browser.run("return window.hit") is None


def test_the_page_lets_nothing_else_run_and_reaches_nothing(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    assert browser.logs()[0] == []
    refused = browser.driver.execute_async_script("""
        const done = arguments[0], script = document.createElement("script"), image = new Image();
        script.textContent = "window.hit = 1"; document.body.append(script);
        document.body.setAttribute("onclick", "window.hit = 1"); document.body.click();
        image.onerror = () => fetch("http://127.0.0.1:9/").then(() => done(["reached"]), () => done([window.hit ?? null]));
        image.src = "http://127.0.0.1:9/x.png";
    """)
    assert refused == [None]
    said, _ = browser.logs()
    assert said
    assert all("Content Security Policy" in each for each in said)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_and_bars_stand_out_in_light_and_dark(
    tmp_path: Path, browser: Browser, advisor: Command, dark: bool
) -> None:
    page, _ = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page, dark=dark)
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    inks = browser.run("""return ["h1", "#told", "#keys li", "summary"].map(each =>
        getComputedStyle(document.querySelector(each)).color)""")
    assert (luminance(ground) < 0.1) == dark
    for ink in inks:
        assert contrast(ink, ground) >= 4.5
    idle = browser.run("return getComputedStyle(document.documentElement).getPropertyValue('--idle').trim()")
    rows = rows_of(browser, 4, idle)
    for colour, *_ in bars(browser, rows):
        assert contrast(colour, ground) >= 1.9  # each bar has its edges and its name as well
    fills = [text for text in browser.texts() if text[0].startswith("task ")]
    below = {(x, y): colour for colour, x, _, y in bars(browser, rows)}
    for _, x, y, ink in fills:
        colour = next(
            c for (left, top), c in below.items() if left == pytest.approx(x - 4) and top < y < top + rows.bar
        )
        assert contrast(ink, colour) >= 4.5


def parts(colour: str) -> list[float]:
    if colour.startswith("#"):
        return [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    return [float(part) / 255 for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]


def luminance(colour: str) -> float:
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


def test_what_is_drawn_is_told_in_words_too(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, tasks = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page)
    assert browser.run("return document.documentElement.lang") == "en"
    browser.driver.execute_cdp_cmd("Accessibility.enable", {})
    tree = browser.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    named = {(node["role"]["value"], node.get("name", {}).get("value")) for node in tree if not node["ignored"]}
    heading = browser.driver.title
    assert {("heading", heading), ("application", heading), ("searchbox", "find"), ("button", "show all")} <= named
    assert "status" in {role for role, _ in named}
    browser.run("document.querySelector('summary').click()")
    browser.settle()
    rows = browser.run("""return Array.from(document.querySelectorAll("table")).map(table => [table.caption.textContent,
        Array.from(table.tBodies[0].rows, row => Array.from(row.cells, cell => cell.textContent))])""")
    found = dict(rows)
    end = max(task.finish for task in tasks)
    for core, row in enumerate(found["Cores"]):
        mine = [task for task in tasks if task.core == core]
        busy = sum(task.finish - task.start for task in mine)
        assert row == [f"core {core}", str(len(mine)), f"{busy:.4g} s", f"{100 * busy / end:.1f} %"]
    path = found["Critical path through the schedule"]
    assert path[0][2] == "0 s"
    assert sum(int(row[1]) for row in found["Tasks by colour"]) == 60


def test_nothing_to_draw_is_a_page_too(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, [], 2)
    browser.open(page)
    assert rows_of(browser, 2).width > 800
    browser.run("document.querySelector('summary').click()")
    browser.press("n", "+", Keys.ESCAPE)


def test_a_hundred_thousand_tasks_open_and_are_found(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    count = 100_000
    tasks = [{"id": f"t{n}", "time": 1 + n % 5, "after": [f"t{n - 16}"] if n >= 16 else []} for n in range(count)]
    page, schedule = made(tmp_path, advisor, tasks, 16)
    browser.open(page)
    rows, (left, top), end = rows_of(browser, 16), browser.origin(), max(task.finish for task in schedule)
    assert (
        browser.memory() < 400 * count
    )  # bytes: a task's arrays are 50, its name as much, and their text is gone or twice that
    assert len(browser.run("return spied.rects")) < 5_000  # by the dot, and not by the task
    wanted = schedule[77_777]
    browser.run("document.getElementById('find').focus()")
    browser.press(*wanted.name, Keys.ENTER)
    assert browser.words("told").startswith(f"{wanted.name}: ")
    browser.run(
        "document.getElementById('find').value = ''; document.getElementById('find').dispatchEvent(new Event('input'))"
    )
    browser.run("document.getElementById('all').click()")
    at = (wanted.start + wanted.finish) / 2
    for _ in range(8):
        browser.wheel(left + rows.x(at, end), top + rows.middle(wanted.core), -900)
    browser.point(left + rows.x(at, end), top + rows.middle(wanted.core))
    assert len(bars(browser, rows)) < 500


def test_speedups_as_svg_open_in_the_browser(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    for cores in ("1..8", "4"):
        advisor("simulate", "polyroots", "--cores", cores, "--policy", "fifo,lpt", "--plot", tmp_path / "s.svg")
        browser.open(tmp_path / "s.svg")
        assert browser.run("return document.documentElement.getBBox().width") > 500
        assert browser.run("return document.querySelectorAll('path').length") > 20
