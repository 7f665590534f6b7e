"""What one does with a Gantt page: the wheel keeps the time under the pointer, fingers what is between them; names show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from browser import Browser
from gantt_pages import Command, bars, edge, made, mixed, rows_of, three
from selenium.webdriver import Keys


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
    reported = {text: y for text, _, y, _ in browser.texts() if text.startswith("core ")}
    assert "core 20" in reported
    assert 0 < len(reported) < 30
    zoomed = (reported["core 21"] - reported["core 20"]) / (rows.tops[21] - rows.tops[20])
    assert zoomed == pytest.approx(np.exp(0.0015 * 900), rel=1e-3)
    assert reported["core 20"] == pytest.approx(at, abs=0.5 * zoomed)
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
    assert moved["core 21"] == pytest.approx(reported["core 21"] - 80, abs=0.01)


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
    assert browser.words("reported").startswith("left: 2 s")


def test_pointing_tells_a_task_and_leaving_does_not(tmp_path: Path, browser: Browser, advisor: Command) -> None:
    page, _ = made(tmp_path, advisor, three(), 2)
    browser.open(page)
    rows, (left, top) = rows_of(browser, 2), browser.origin()
    browser.point(left + rows.x(3.0, 5.0), top + rows.middle(0))
    reported = "2 s, from 2 s to 4 s on core 0, b"
    assert (browser.tip() or "").split("\n") == ["left", reported]
    assert browser.words("reported") == f"left: {reported}"
    browser.point(left + rows.x(1.0, 5.0), top + rows.middle(0))
    assert browser.words("reported") == "first: 2 s, from 0 s to 2 s on core 0, a, on the critical path"
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
    assert browser.words("reported").startswith("first: ")
    browser.press("n", "n")
    assert browser.words("reported").startswith("right: ")
    browser.press("p")
    assert browser.words("reported").startswith("left: ")
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
    assert browser.words("reported").startswith(f"{len(hits)} of 300 tasks, ")
    reported: list[str] = []
    for _ in hits:
        browser.press(Keys.ENTER)
        reported.append(browser.words("reported").split(":")[0])
    assert sorted(reported) == hits
    at = next(task for task in tasks if task.name == reported[-1])
    shown = [float(text[:-2]) for text, *_ in browser.texts() if text.endswith(" s")]
    assert shown[0] <= at.finish
    assert at.start <= shown[-1]
    browser.press("x")
    assert browser.words("reported") == "Nothing here has that in its name."


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
    assert browser.words("reported").startswith(f"{wanted.name}: ")
    browser.run(
        "document.getElementById('find').value = ''; document.getElementById('find').dispatchEvent(new Event('input'))"
    )
    browser.run("document.getElementById('all').click()")
    at = (wanted.start + wanted.finish) / 2
    for _ in range(8):
        browser.wheel(left + rows.x(at, end), top + rows.middle(wanted.core), -900)
    browser.point(left + rows.x(at, end), top + rows.middle(wanted.core))
    assert len(bars(browser, rows)) < 500
