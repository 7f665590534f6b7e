"""The Gantt page that the command writes, opened in a real browser."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from browser import Browser


def test_the_page_opens_and_says_nothing(tmp_path: Path, browser: Browser, advisor: Callable[..., Any]) -> None:
    graph, page = tmp_path / "three.json", tmp_path / "three.html"
    tasks = [{"id": "load", "time": 1}, {"id": "left", "time": 2, "after": ["load"]}, {"id": "right", "time": 3, "after": ["load"]}]
    graph.write_text(json.dumps({"unit": "ms", "tasks": tasks}))
    advisor("simulate", graph, "--cores", 2, "--gantt", page)
    browser.open(page)
    assert browser.driver.title == "three: fifo on 2 cores, 4 ms"
    assert {"load", "left", "right", "core 0", "core 1"} <= {text for text, *_ in browser.run("return spied.texts")}
