"""The Gantt page that the command writes, opened in a real browser, against the schedule that its Chrome trace tells.

The bar of a task lies where its times say, what is narrower is painted by its share, and what is drawn is told in words.
"""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser
from gantt_pages import IDLE, Command, bars, made, mixed, rows_of
from selenium.webdriver import Keys

from advisor.pictures.kinds import COLOURS


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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_words_and_bars_stand_out_in_light_and_dark(
    tmp_path: Path, browser: Browser, advisor: Command, dark: bool
) -> None:
    page, _ = made(tmp_path, advisor, mixed(60), 4)
    browser.open(page, dark=dark)
    ground = browser.run("return getComputedStyle(document.body).backgroundColor")
    inks = browser.run("""return ["h1", "#reported", "#keys li", "summary"].map(each =>
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


def test_speedups_as_svg_open_in_the_browser(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    for cores in ("1..8", "4"):
        advisor("simulate", "polyroots", "--cores", cores, "--policy", "fifo,lpt", "--plot", tmp_path / "s.svg")
        browser.open(tmp_path / "s.svg")
        assert browser.run("return document.documentElement.getBBox().width") > 500
        assert browser.run("return document.querySelectorAll('path').length") > 20
