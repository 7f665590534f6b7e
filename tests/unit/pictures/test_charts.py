"""Charts are PNG files of the size asked for, drawn without display or global state; bad targets are named."""

from __future__ import annotations

import builtins
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from advisor.errors import InvalidValue, Unsupported
from advisor.pictures import Bars, Panel, Series, draw, draw_replay
from advisor.pictures.charts import DOTS_PER_INCH, PANEL_INCHES

X = np.array([1.0, 10.0, 100.0])
LINES = Panel(
    "t", "x (s)", "y (s)", [Series("a", X, X, band=(X / 2, X * 2)), Series("b", X, X, "points", 1)], log_x=True
)
BARS = Panel("t", "", "y", bars=Bars(["a", "b"], {"one": [1.0, 2.0], "two": [2.0, 1.0]}))


def pixels(path: Path) -> tuple[int, int]:
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", head[16:24])


@pytest.mark.parametrize(
    ("panels", "columns", "rows"), [([LINES], 1, 1), ([LINES, BARS], 2, 1), ([LINES, BARS, LINES], 2, 2)]
)
def test_panels_stand_two_a_line(tmp_path: Path, panels: list[Panel], columns: int, rows: int) -> None:
    width, height = pixels(draw(tmp_path / "p.png", "title", panels))
    assert width == pytest.approx(columns * PANEL_INCHES[0] * DOTS_PER_INCH, abs=1)
    assert height == pytest.approx((rows * PANEL_INCHES[1] + 0.5) * DOTS_PER_INCH, abs=1)


def test_drawing_leaves_no_trace_in_pyplot(tmp_path: Path) -> None:
    draw(tmp_path / "p.png", "title", [LINES])
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


def test_the_same_chart_is_the_same_file(tmp_path: Path) -> None:
    one, two = (draw(tmp_path / name, "title", [LINES, BARS]).read_bytes() for name in ("1.png", "2.png"))
    other = draw(tmp_path / "3.png", "title", [BARS, LINES]).read_bytes()
    assert one == two != other


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Unsupported, match=r"core-advisor\[plot\]"):
        draw(tmp_path / "p.png", "title", [LINES])


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="nowhere"):
        draw(tmp_path / "nowhere" / "p.png", "title", [LINES])


def rows(cores: list[float], sizes: list[float]) -> list[tuple[str, float, float, float, float]]:
    return [("c", x, p, x / p, 1.1 * x / p) for x in sizes for p in cores]


@pytest.mark.parametrize(
    "sample",
    [
        [],
        rows([2.0], [1.0, 2.0, 3.0]),
        rows([1.0, 2.0, 4.0], [7.0]),
        rows([1.0], [1.0]),
        rows([1.0, 4.0], [0.0, 10.0, 1e9]),
    ],
    ids=["nothing", "one core count", "one size", "one point", "size zero"],
)
def test_every_shape_of_table_can_be_drawn(tmp_path: Path, sample: list[Any]) -> None:
    online = {"c": (np.array([8.0, 12.0]), np.array([0.2, 0.1]))} if sample else {}
    drawn = draw_replay(tmp_path / "p.png", "title", online, sample, lambda name, x, p: (x + 1) / p)
    assert min(pixels(drawn)) > 400
