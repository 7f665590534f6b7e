"""Pictures of analysed graphs: what is drawn, and a page that stands alone."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from advisor.domain.task_graphs import task_graph
from advisor.errors import InvalidValue
from advisor.pictures.kinds import COLOURS, kinds_of
from advisor.pictures.schedules import draw_gantt, draw_speedups, ink_on
from advisor.simulation import AnalysisRequest, answer, simulate
from advisor.simulation.shapes import polyroots, psim

PNG = b"\x89PNG\r\n\x1a\n"


def test_speedups_and_gantt_charts_are_drawn(tmp_path: Path) -> None:
    graph = polyroots()
    result = answer(graph, AnalysisRequest(cores=[1, 4, 8], policies=["fifo", "lpt"]))
    assert draw_speedups(tmp_path / "s.png", "polyroots", result).read_bytes().startswith(PNG)
    for execution in (simulate(graph, 4, trace=True), simulate(psim(), 3, "split", trace=True)):
        assert draw_gantt(tmp_path / "g.png", "graph", execution).read_bytes().startswith(PNG)
    nothing = task_graph([])
    assert draw_gantt(tmp_path / "n.png", "nothing", simulate(nothing, 2, trace=True)).read_bytes().startswith(PNG)
    assert draw_gantt(tmp_path / "n.html", "nothing", simulate(nothing, 2, trace=True)).exists()


def test_the_page_stands_alone_and_holds_the_schedule(tmp_path: Path) -> None:
    graph = task_graph([1.5, 2.0, 3.0], [(0, 1), (0, 2)], names=("<a>", "</script><b>", "c"), unit="ms")
    execution = simulate(graph, 2, trace=True)
    text = draw_gantt(tmp_path / "g.html", "A & <B>", execution).read_text(encoding="utf-8")
    assert not re.search(r"\bsrc\s*=|href\s*=\s*\"(?!data:,)|https?://|@import", text)
    assert text.count("</script>") == 2  # the data's, which is none, and the program's
    assert "A &amp; &lt;B&gt;" in text
    assert "{{" not in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*)</script>', text)[1])
    assert data["names"] == ["<a>", "</script><b>", "c"]

    def unpacked(name: str, kind: str) -> list[float]:
        return np.frombuffer(base64.b64decode(data[name]), kind).tolist()

    assert unpacked("from", "<f8") == pytest.approx([0.0, 1.5, 1.5])
    assert unpacked("to", "<f8") == pytest.approx([1.5, 3.5, 4.5])
    assert unpacked("row", "<u4") == [0, 0, 1]
    assert unpacked("marked", "u1") == [1, 0, 1]
    assert data["end"] == pytest.approx(4.5)


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    odd = task_graph(
        [1.0, 2.0, 3.0],
        names=("$a_{$", "_x", "\\$^ 漢字 🚀 \u202e"),
        types=("$\\frac{$", "_hidden"),
        columns={"type": [0, 1, 1], "size": [1.0] * 3},
    )
    assert draw_gantt(tmp_path / "g.png", "$m^{$", simulate(odd, 1, trace=True)).read_bytes().startswith(PNG)
    result = answer(odd, AnalysisRequest(cores=[1, 2], policies=[lambda ready, processor: ready[0]]))
    assert draw_speedups(tmp_path / "s.png", "_$m^{$", result).read_bytes().startswith(PNG)


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    execution = simulate(polyroots(), 2, trace=True)
    for name in ("g.svg", "g", "no/g.html", "no/g.png"):
        with pytest.raises(InvalidValue):
            draw_gantt(tmp_path / name, "x", execution)
    with pytest.raises(InvalidValue, match="trace"):
        draw_gantt(tmp_path / "g.html", "x", simulate(polyroots(), 2))


def test_the_kinds_with_most_time_have_colours_of_their_own() -> None:
    graph = polyroots()
    kinds, names = kinds_of(simulate(graph, 2, trace=True))
    assert len(names) == len(COLOURS)
    assert names[-1] == "others"
    loops = graph.columns["loop"]
    assert names[0] == f"loop {loops.max()}"  # the final one
    assert set(kinds[loops == loops.max()].tolist()) == {0}
    plain = replace(graph, columns={})
    assert kinds_of(simulate(plain, 2, trace=True))[1] == ["task"]


def test_on_one_number_of_cores_policies_are_bars(tmp_path: Path) -> None:
    for graph in (polyroots(), task_graph([])):
        result = answer(graph, AnalysisRequest(cores=[8], policies=["fifo", "lpt", "bottom_level", "work_stealing"]))
        with Image.open(draw_speedups(tmp_path / "s.png", "one", result)) as picture:
            assert picture.info["Title"] == "one"
            assert "Makespan on 8 cores" in picture.info["Description"]
            assert all(
                f"{row['policy']}: {row['speedup']:.2f}" in picture.info["Description"] for row in result["results"]
            )


@pytest.mark.parametrize("kind", range(len(COLOURS)))
def test_names_stand_out_from_their_bars(kind: int) -> None:
    """On each colour the ink is that of black and white which has more contrast, 4.5 at least."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    ground = luminance(COLOURS[kind])
    black, white = (ground + 0.05) / 0.05, 1.05 / (ground + 0.05)
    assert ink_on(COLOURS[kind]) == ("black" if black > white else "white")
    assert max(black, white) >= 4.5
