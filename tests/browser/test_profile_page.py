"""The page of a profile that the command writes, opened in a real browser, against the profile that it tells in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from selenium.webdriver import Keys
from task_program import Program, recursive

from advisor.domain.task_events import EventWriter, Kind
from advisor.files.events import write_events
from advisor.pictures.roles import LEGEND

Command = Callable[..., Any]
SIDE = 14.0  # left and right of the chart
ROW = 20.0
NARROW = 2.0  # what is narrower is painted by its share of each dot


class ProfileAnswer:
    """The profile as the command tells it in JSON, and how wide and deep boxes should be: worked out from parents and times."""

    def __init__(self, profile: dict[str, Any]) -> None:
        nodes = profile["nodes"]
        self.parent, self.inclusive, self.exclusive = nodes["parent"], nodes["inclusive_ns"], nodes["exclusive_ns"]
        self.labels = [
            f"{name}={value}" if role == "parameter" else f"thread {name}" if role == "thread" else name
            for name, role, value in zip(nodes["name"], nodes["role"], nodes["value"], strict=True)
        ]
        self.role, self.count = nodes["role"], nodes["count"]
        self.whole = float(sum(time for time, above in zip(self.inclusive, self.parent, strict=True) if above < 0))

    def depth(self, node: int) -> int:
        """Return how deep a node lies; the heads of tasks and threads are at 0."""
        return 1 if self.parent[node] < 0 else 1 + self.depth(self.parent[node])

    def below(self, node: int) -> list[int]:
        """Return the nodes that are part of one."""
        return [each for each, above in enumerate(self.parent) if above == node]

    def of_tasks(self, node: int) -> bool:
        """Return whether a node is in the tree of a task."""
        return self.role[node] == "task" or (self.parent[node] >= 0 and self.of_tasks(self.parent[node]))


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded run on four threads: 1,092 tasks of recursion."""
    path = tmp_path_factory.mktemp("runs") / "small.events"
    write_events(path, [Program(4, recursive(6, 3, 300), contention=2.0).run()])
    return path


@pytest.fixture
def shown(
    events: Path, tmp_path: Path, browser: Browser, advisor: Command, capsys: pytest.CaptureFixture[str]
) -> tuple[Browser, ProfileAnswer]:
    """The page of that run in the browser, and what it should show."""
    page = tmp_path / "p.html"
    capsys.readouterr()
    advisor("profile", events, "--picture", page, "--json")
    reported = ProfileAnswer(json.loads(capsys.readouterr().out)["profiles"][0]["profile"])
    browser.open(page)
    return browser, reported


def boxes(browser: Browser) -> list[tuple[str, float, float, float]]:
    """Return (colour, left, right, top) of what has a colour of the legend."""
    colours = {colour for _, colour in LEGEND}
    return [(c, x, x + w, y) for c, _, x, y, w, _ in browser.run("return spied.rects") if c in colours]


def first(browser: Browser, text: str) -> tuple[float, float]:
    """Return a place on the page within the first box that has this written on it."""
    left, top = browser.origin()
    return next((left + x + 1, top + y) for words, x, y, _ in browser.texts() if words.startswith(text))


def test_boxes_are_as_wide_as_their_times_and_lie_below_their_callers(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    scale = (1000 - 2 * SIDE) / reported.whole
    wide = [node for node in range(len(reported.parent)) if reported.inclusive[node] * scale >= NARROW]
    found = boxes(browser)
    assert len(found) == len(wide) + 2 > 20  # and the heads of tasks and threads
    tops = sorted({top for *_, top in found})
    assert [top - tops[0] for top in tops] == [ROW * row for row in range(len(tops))]
    for row, top in enumerate(tops[1:], 1):
        widths = sorted(right - left for _, left, right, y in found if y == top)
        wanted = sorted(reported.inclusive[node] * scale for node in wide if reported.depth(node) == row)
        for width, want in zip(widths, wanted, strict=True):
            assert want - 0.75 <= width <= want + 0.01
        for _, left, right, y in found:  # within one of the row above
            if y == top:
                assert any(a <= left + 0.01 and right <= b + 0.75 for _, a, b, z in found if z == top - ROW)
    assert min(left for _, left, *_ in found) == SIDE
    assert max(right for _, _, right, _ in found) == pytest.approx(1000 - SIDE, abs=0.75)


def test_a_click_shows_a_box_alone_below_its_callers(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    whole = browser.drawn()
    browser.click(*first(browser, "depth=5"))
    node = reported.labels.index("depth=5")
    texts = {text.split("  ")[0] for text, *_ in browser.texts()}
    assert {"tasks", "solve task", "depth=5"} <= texts
    assert not any(text.startswith(("thread", "depth=6", "depth=4")) for text in texts)
    found = boxes(browser)
    assert [round(right - left, 1) for _, left, right, _ in found[:3]] == [971.4] * 3  # its callers, and itself
    scale = (1000 - 2 * SIDE) / reported.inclusive[node]
    wanted = sorted(
        reported.inclusive[each] * scale for each in reported.below(node) if reported.inclusive[each] * scale >= NARROW
    )
    top = sorted({y for *_, y in found})[3]
    widths = sorted(right - left for _, left, right, y in found if y == top)
    for width, want in zip(widths, wanted, strict=True):
        assert want - 0.75 <= width <= want + 0.01
    browser.click(*first(browser, "solve task"))  # a caller: back out to it
    assert {"solve task", "depth=6"} <= {text.split("  ")[0] for text, *_ in browser.texts()}
    browser.run("document.getElementById('chart').focus()")
    browser.press(Keys.ESCAPE)
    browser.point(2, 2)
    assert browser.drawn() == whole


def test_pointing_tells_a_box(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    browser.point(*first(browser, "depth=4"))
    node = reported.labels.index("depth=4")
    tasks = sum(reported.inclusive[each] for each in range(len(reported.parent)) if reported.role[each] == "task")
    inclusive, own = (f"{times[node] / 1000:.4g} µs" for times in (reported.inclusive, reported.exclusive))
    words = f"{inclusive} ({100 * reported.inclusive[node] / tasks:.1f} % of tasks), {own} of its own, work, 81 visits"
    assert browser.tip() == f"depth=4\n{words}"
    assert browser.words("reported") == f"depth=4: {words}"
    browser.point(2, 2)
    assert browser.tip() is None


def test_what_is_searched_is_counted_once_and_stands_out(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    browser.run("document.getElementById('find').focus()")
    browser.press(*"SOLVE")
    nodes = range(len(reported.parent))
    hits = [node for node in nodes if "solve" in reported.labels[node]]
    tops = [node for node in hits if not any(above in hits for above in callers(reported, node))]
    parts = []
    for head, of_tasks in (("tasks", True), ("threads", False)):
        whole = sum(
            reported.inclusive[node]
            for node in nodes
            if reported.parent[node] < 0 and reported.of_tasks(node) == of_tasks
        )
        mine = sum(reported.inclusive[node] for node in tops if reported.of_tasks(node) == of_tasks)
        parts.append(f"{mine / 1000:.4g} µs ({100 * mine / whole:.1f} %) of {head}")
    assert browser.words("reported") == (
        f"{len(hits)} of {len(reported.parent) + 2} boxes, {' and '.join(parts)}. Enter goes to the next."
    )
    faded = [alpha for colour, alpha, *_ in browser.run("return spied.rects") if colour in dict(map(reversed, LEGEND))]
    assert set(faded) == {1.0, 0.2}
    seen = set[str]()
    for _ in hits:
        browser.press(Keys.ENTER)
        seen.add(browser.words("reported").split(":")[0])
    assert seen == {reported.labels[node] for node in hits}
    browser.press(Keys.ESCAPE)
    assert {alpha for _, alpha, *_ in browser.run("return spied.rects")} == {1.0}


def callers(reported: ProfileAnswer, node: int) -> list[int]:
    above = reported.parent[node]
    return [] if above < 0 else [above, *callers(reported, above)]


def test_the_tables_tell_call_paths_and_their_own_time(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    browser.run("document.querySelector('summary').click()")
    browser.settle()
    rows = browser.run(
        """const rows = [...document.querySelectorAll("table")].at(-1).tBodies[0].rows;
        return Array.from(rows, row => Array.from(row.cells, cell => cell.textContent))"""
    )
    assert len(rows) == len(reported.parent)
    most = max(range(len(reported.parent)), key=lambda node: reported.exclusive[node])
    path = [reported.labels[node] for node in (most, *callers(reported, most))][::-1]
    assert rows[0][0].split(" › ")[1:] == path
    assert rows[0][2] == f"{reported.count[most]:,}"
    assert rows[0][4] == f"{reported.exclusive[most] / 1000:.4g} µs"


def test_a_flame_graph_has_its_roots_below(
    events: Path, tmp_path: Path, browser: Browser, advisor: Command, shown: tuple[Browser, ProfileAnswer]
) -> None:
    upright = boxes(browser)
    advisor("profile", events, "--flame", "--picture", tmp_path / "f.html")
    browser.open(tmp_path / "f.html")
    turned = boxes(browser)
    rows = len({top for *_, top in upright})
    low = min(top for *_, top in upright)
    mirrored = sorted((c, left, right, 2 * low + ROW * (rows - 1) - top) for c, left, right, top in upright)
    assert sorted(turned) == mirrored
    assert browser.run("return document.documentElement.lang") == "en"
    assert browser.driver.title.startswith("small.events: tasks 904 µs, threads 908 µs")


def test_names_are_text_and_deep_trees_scroll(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    hostile = ["</script><script>window.hit = 1</script>", "<img src=x onerror='window.hit=1'>", "{{DATA}}", "שלום 🚀"]
    out, deep = EventWriter(), 80
    names = [*hostile, *(f"level {n}" for n in range(len(hostile), deep))]
    for n, name in enumerate(names):
        out.add_event(n, Kind.ENTER, type=name)
    for n, name in enumerate(reversed(names)):
        out.add_event(10_000 + n, Kind.EXIT, type=name)
    path = tmp_path / "deep.events"
    write_events(path, [out.batch()])
    advisor("profile", path, "--picture", tmp_path / "d.html")
    browser.open(tmp_path / "d.html", 900, 500)
    left, top = browser.origin()
    for name in hostile:
        browser.point(*first(browser, name))
        assert browser.words("reported").startswith(f"{name}: ")
    assert not any(text.startswith("level 79") for text, *_ in browser.texts())
    browser.wheel(left + 300, top + 100, 5000, shift=True)
    texts = {text.split("  ")[0] for text, *_ in browser.texts()}
    assert "level 79" in texts
    assert hostile[2] not in texts
    browser.drag([(left + 300, top + 100), (left + 300, top + 200), (left + 300, top + 300)])
    assert "level 79" not in {text.split("  ")[0] for text, *_ in browser.texts()}
    assert browser.run("return [document.images.length, document.scripts.length, window.hit ?? null]") == [0, 2, None]


def test_what_is_wrong_stands_on_the_page(
    events: Path, shown: tuple[Browser, ProfileAnswer], advisor: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    browser, _ = shown
    advisor("profile", events, "--json")
    found = [each["text"] for each in json.loads(capsys.readouterr().out)["profiles"][0]["diagnosis"]]
    assert found
    assert browser.run("return [...document.querySelectorAll('#diagnosis li')].map(each => each.textContent)") == found
