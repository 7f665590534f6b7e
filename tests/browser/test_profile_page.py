"""The page of a profile that the command writes, opened in a real browser, against the profile that it tells in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from selenium.webdriver import ActionChains, Keys
from task_program import Program, recursive

from advisor.domain.task_events import EventWriter, Kind
from advisor.files.events import write_events
from advisor.pictures.profile_page import LEGEND

Command = Callable[..., Any]
ROW = 20.0
NARROW = 1.0  # what is narrower is left out


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
    reported = ProfileAnswer(json.loads(capsys.readouterr().out)["profile"])
    browser.open(page)
    return browser, reported


def boxes(browser: Browser) -> list[tuple[str, float, float, float]]:
    """Return (name, left, right, top) of the boxes, in dots of the chart."""
    found = browser.run("""return [...document.querySelectorAll("#chart button")].map(box => [
        box.querySelector("bdi").textContent, ...["left", "width", "top"].map(key => parseFloat(box.style[key]))])""")
    return [(name, left, left + width, top) for name, left, width, top in found]


def wide(browser: Browser) -> float:
    """Return the dots that all boxes share."""
    return browser.run("return document.getElementById('chart').clientWidth")


def act(browser: Browser, text: str, action: str) -> None:
    """Click the first box of a name, or point at it."""
    box = browser.run(
        "return [...document.querySelectorAll('#chart button')].find(box => box.textContent.startsWith(arguments[0]))",
        text,
    )
    chain = ActionChains(browser.driver, duration=0).move_to_element(box)
    (chain.click() if action == "click" else chain).perform()
    browser.settle()


def test_boxes_are_as_wide_as_their_times_and_lie_below_their_callers(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    scale = wide(browser) / reported.whole
    seen = [node for node in range(len(reported.parent)) if reported.inclusive[node] * scale >= NARROW]
    found = boxes(browser)
    assert len(found) == len(seen) + 2 > 20  # and the heads of tasks and threads
    tops = sorted({top for *_, top in found})
    assert tops == [ROW * row for row in range(len(tops))]
    for row, top in enumerate(tops[1:], 1):
        widths = sorted(right - left for _, left, right, y in found if y == top)
        wanted = sorted(reported.inclusive[node] * scale for node in seen if reported.depth(node) == row)
        assert widths == pytest.approx(wanted, abs=0.01)
        for _, left, right, y in found:  # within one of the row above
            if y == top:
                assert any(a <= left + 0.01 and right <= b + 0.01 for _, a, b, z in found if z == top - ROW)
    assert min(left for _, left, *_ in found) == 0.0
    assert max(right for _, _, right, _ in found) == pytest.approx(wide(browser), abs=0.01)
    painted = browser.run("return [...document.querySelectorAll('#chart button')].map(box => box.style.background)")
    assert len(set(painted)) <= len(LEGEND)


def test_a_click_shows_a_box_alone_below_its_callers(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    whole = boxes(browser)
    act(browser, "depth=5", "click")
    node = reported.labels.index("depth=5")
    found = boxes(browser)
    assert {"tasks", "solve task", "depth=5"} <= {name for name, *_ in found}
    assert not any(name.startswith(("thread", "depth=6", "depth=4")) for name, *_ in found)
    assert [right - left for _, left, right, _ in found[:3]] == [wide(browser)] * 3  # its callers, and itself
    scale = wide(browser) / reported.inclusive[node]
    wanted = sorted(
        reported.inclusive[each] * scale for each in reported.below(node) if reported.inclusive[each] * scale >= NARROW
    )
    assert sorted(right - left for _, left, right, y in found if y == 3 * ROW) == pytest.approx(wanted, abs=0.01)
    act(browser, "solve task", "click")  # a caller: back out to it
    assert {"solve task", "depth=6"} <= {name for name, *_ in boxes(browser)}
    browser.press(Keys.ESCAPE)
    assert boxes(browser) == whole


def test_pointing_or_the_tab_key_tells_a_box(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, reported = shown
    act(browser, "depth=4", "point")
    node = reported.labels.index("depth=4")
    tasks = sum(reported.inclusive[each] for each in range(len(reported.parent)) if reported.role[each] == "task")
    inclusive, own = (f"{times[node] / 1000:.4g} µs" for times in (reported.inclusive, reported.exclusive))
    words = f"{inclusive} ({100 * reported.inclusive[node] / tasks:.1f} % of tasks), {own} of its own, work, 81 visits"
    assert browser.words("reported") == f"depth=4: {words}"
    browser.run("document.getElementById('all').focus()")
    browser.press(Keys.TAB, Keys.TAB)  # the chart scrolls; then its first box
    browser.press(*[Keys.TAB] * 2)
    assert browser.words("reported").split(":")[0] in {name for name, *_ in boxes(browser)}
    browser.press(Keys.ENTER)
    assert boxes(browser)[0][2] == pytest.approx(wide(browser))


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
    faded = browser.run("return [...document.querySelectorAll('#chart .faded bdi')].map(each => each.textContent)")
    assert faded
    assert not any("solve" in name for name in faded)
    seen = set[str]()
    for _ in hits:
        browser.press(Keys.ENTER)
        seen.add(browser.words("reported").split(":")[0])
    assert seen == {reported.labels[node] for node in hits}
    browser.press(Keys.ESCAPE)
    assert browser.run("return document.querySelector('#chart .faded')") is None


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
    for name in hostile:
        act(browser, name, "point")
        assert browser.words("reported").startswith(f"{name}: ")
    act(browser, "level 79", "point")  # scrolls there
    assert browser.words("reported").startswith("level 79: ")
    assert browser.run("return document.getElementById('chart').scrollTop") > 0
    assert browser.run("return [document.images.length, document.scripts.length, window.hit ?? null]") == [0, 2, None]


def test_what_is_wrong_stands_on_the_page(
    events: Path, shown: tuple[Browser, ProfileAnswer], advisor: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    browser, _ = shown
    advisor("profile", events, "--json")
    found = [each["text"] for each in json.loads(capsys.readouterr().out)["diagnosis"]]
    assert found
    assert browser.run("return [...document.querySelectorAll('#diagnosis li')].map(each => each.textContent)") == found


def test_the_page_lets_nothing_else_run_and_reaches_nothing(shown: tuple[Browser, ProfileAnswer]) -> None:
    browser, _ = shown
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
