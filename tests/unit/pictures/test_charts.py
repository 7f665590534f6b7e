"""Charts are PNG files of the size asked for, drawn without display or global state; bad targets are named."""

from __future__ import annotations

import builtins
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from advisor.errors import InvalidValue, Unsupported
from advisor.pictures import Bars, Panel, Series, draw, draw_replay
from advisor.pictures.charts import DASHES, DOTS_PER_INCH, MARKERS, PALETTE, PANEL_INCHES, headline, literal

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
    with pytest.raises(Unsupported, match="pip install matplotlib"):
        draw(tmp_path / "p.png", "title", [LINES])


def test_a_target_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="nowhere"):
        draw(tmp_path / "nowhere" / "p.png", "title", [LINES])


def test_lines_that_lie_on_each_other_can_all_be_seen(tmp_path: Path) -> None:
    """The one below is wider; far apart, none is; each of the first seven differs in colour or dashes."""
    x = np.arange(1.0, 65.0)
    alike = [Series(f"s{n}", x, x + 1e-6 * n, colour=n) for n in range(3)]
    for lines, inks in ((alike, 3), ([Series("a", x, x), Series("b", x, 2 * x, colour=1)], 2)):
        with Image.open(draw(tmp_path / "p.png", "title", [Panel("t", "x", "y", lines)])) as picture:
            seen = {colour for _, colour in picture.convert("RGB").getcolors(2**24)}
        wanted = {tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5)) for colour in PALETTE[:inks]}
        assert wanted <= seen
    looks = {(PALETTE[n % len(PALETTE)], DASHES[n // len(PALETTE) % len(DASHES)], MARKERS[n % 7]) for n in range(24)}
    assert len(looks) == 24


def test_letters_that_the_font_lacks_are_boxes_and_no_warnings(tmp_path: Path) -> None:
    assert literal("a漢🚀é\n$_") == "a□□é\n\\$_"
    draw(
        tmp_path / "p.png",
        "漢字 🚀",
        [Panel("\u202e🚀", "漢", "字", [Series("🚀", X, X), Series("漢", X, 2 * X, colour=1)])],
    )


def test_a_chart_tells_in_words_what_it_shows(tmp_path: Path) -> None:
    with Image.open(draw(tmp_path / "p.png", "all", [LINES, BARS])) as picture:
        assert picture.info["Title"] == "all"
        assert picture.info["Description"] == "t: y (s) over x (s) (a; b). t: y (a: 1.00, 2.00; b: 2.00, 1.00)."


def test_a_name_says_what_is_drawn(tmp_path: Path) -> None:
    image = ElementTree.parse(draw(tmp_path / "p.SVG", "a <b> & $c$", [LINES, BARS])).getroot()
    assert image.tag == "{http://www.w3.org/2000/svg}svg"
    assert "a <b> & $c$" in "".join(image.itertext())
    assert draw(tmp_path / "p", "t", [LINES]).read_bytes().startswith(b"\x89PNG")
    for name in ("p.pdf", "p.html", "p.svg.gz"):
        with pytest.raises(InvalidValue, match=r"\.png or \.svg"):
            draw(tmp_path / name, "t", [LINES])
        assert not (tmp_path / name).exists()


def test_long_titles_and_names_stay_in_the_picture(tmp_path: Path) -> None:
    long = "component-of-a-very-long-name/" * 8
    assert all(len(line) <= 60 for line in headline(long, 58).split("\n"))
    assert headline("a b", 58) == "a b"
    panel = Panel(long, "x", "y", [Series(long, X, X), Series("b", X, 2 * X, colour=1)])
    bars = Panel(long, "", "y", bars=Bars([long, "b", "c"], {long: [1.0, 2.0, 3.0], "d": [1.0, 1.0, 1.0]}))
    wide, _ = pixels(draw(tmp_path / "p.png", long, [panel, bars]))
    assert wide == pytest.approx(2 * PANEL_INCHES[0] * DOTS_PER_INCH, abs=1)
    with Image.open(tmp_path / "p.png") as picture:  # its outermost columns are white: nothing is cut off there
        grey = np.asarray(picture.convert("L"))
    assert grey[:, :2].min() == grey[:, -2:].min() == 255


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
