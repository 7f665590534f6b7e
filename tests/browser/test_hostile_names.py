"""Names of tasks that look like parts of a page are text, and nothing but the page's own program runs in it."""

from __future__ import annotations

import json
from pathlib import Path

from browser import Browser
from gantt_pages import Command, made, rows_of, three

from advisor.pictures.kinds import COLOURS

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
        assert browser.words("reported").startswith(f"{task.name}: ")
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
