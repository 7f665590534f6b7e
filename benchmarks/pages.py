"""How large pages of Gantt charts are, and how soon a browser has drawn one: real graphs, a real Chromium without a window.

    python benchmarks/pages.py [--sizes 41000,100000,1000000] [--runs 7] [--json FILE]

`first_ms` is what the browser takes from the command to open the page to the end of its first drawing, `ratio` that beside
the page of a graph of five tasks in the same run, by turns; `redraw_ms` one more drawing of the whole schedule, `near_ms` of a
fifth of it. Medians. Needs chromium and chromedriver, and the extra `test`.
"""

# ruff: noqa: E402 -- the path is set before anything else is imported
from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[1:1] = [str(HERE.parent), str(HERE.parent / "tests" / "support")]

from browser import Browser

from advisor.domain.task_graphs import task_graph
from advisor.pictures.schedules import draw_gantt
from advisor.simulation import simulate

CORES = 16
FIRST = "const t = performance.timing; return t.domContentLoadedEventEnd - t.navigationStart"
DRAW = "const t = performance.now(); paint(); paint(); pen.getImageData(0, 0, 1, 1); return (performance.now() - t) / 2"
NEAR = "view.from = 0.4 * chart.end; view.to = 0.6 * chart.end;" + DRAW


def page_of(tasks: int, folder: Path) -> Path:
    """Write the page of a graph of so many tasks, of which each waits for one before it."""
    graph = task_graph(
        [1.0 + n % 5 for n in range(tasks)], [(n - CORES, n) for n in range(CORES, tasks)],
        names=tuple(f"task {n}" for n in range(tasks)), unit="ms",
    )  # fmt: skip
    return draw_gantt(folder / f"{tasks}.html", f"{tasks} tasks", simulate(graph, CORES, trace=True))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="41000,100000,1000000")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    sizes = [5, *map(int, given.sizes.split(","))]
    browser = Browser()
    found: dict[int, list[tuple[float, float, float]]] = {size: [] for size in sizes}
    memory: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        pages = {size: page_of(size, Path(folder)) for size in sizes}
        for _ in range(given.runs):
            for size, page in pages.items():
                browser.open(page, 1200, 700)
                found[size].append((browser.run(FIRST), browser.run(DRAW), browser.run(NEAR)))
                memory[size] = browser.memory()
        rows: list[dict[str, Any]] = []
        for size, page in pages.items():
            first, redraw, near = map(statistics.median, zip(*found[size], strict=True))
            least = statistics.median(each[0] for each in found[sizes[0]])
            rows.append({
                "tasks": size, "bytes": page.stat().st_size, "first_ms": first, "ratio": first / least,
                "redraw_ms": redraw, "near_ms": near, "held_bytes": memory[size],
            })  # fmt: skip
    browser.close()
    print(f"{'tasks':>9} {'page':>9} {'a task':>7} {'first':>8} {'ratio':>6} {'redraw':>8} {'near':>8} {'held':>8}")
    for row in rows:
        print(
            f"{row['tasks']:9,} {row['bytes'] / 1e6:6.2f} MB {row['bytes'] / row['tasks']:5.0f} B {row['first_ms']:5.0f} ms "
            f"{row['ratio']:6.1f} {row['redraw_ms']:5.1f} ms {row['near_ms']:5.1f} ms {row['held_bytes'] / 1e6:5.1f} MB"
        )
    if given.json:
        given.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
