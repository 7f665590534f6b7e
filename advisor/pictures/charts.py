"""Panels of lines and bars, drawn to one PNG or SVG file.

The figure is drawn without pyplot: no global state, no display, safe in any thread. Colours are Okabe and Ito's, which
colour-blind readers tell apart; lines differ in marker as well, and from the seventh on in dashes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue, Unsupported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")  # one more than colours: both come round together only after 42 lines
DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 1.2)), (0, (8, 2, 2, 2)))  # of further rounds of colours
BLACK = -1  # the colour of a bound, which belongs to no line
UNKNOWN = "□"  # stands for a letter that the font does not have
GREY = "#666666"
PANEL_INCHES = (6.4, 4.4)
MARKED_POINTS_MAX = 40  # of a line: where there are more, some have a marker, each line others
MARKED_POINTS = 12  # of such a line
WIDTH = 1.8  # of a line, in points
EDGE = 1.7  # more for each later line that hides it: it shows as an edge around that
NAME_MAX = 40  # letters of a label in a legend or below a bar
ROOM = 62  # letters that fit below the bars of a panel; where there are more they are written aslant
DENSE_POINTS = 500  # more points than that are drawn smaller
DOTS_PER_INCH = 130
FORMS = {".png": "png", "": "png", ".svg": "svg"}  # by what a file's name ends in
HEADLINE = 58  # letters of a title that fit over a panel; there is room for two lines
CORES = "cores"  # the label of an axis that has whole numbers only


@dataclass(frozen=True, slots=True)
class Series:
    """Points (x, y) under one label, joined unless `style` is ``points``; a ``line`` has markers; `band`: (low, high) of y."""

    label: str
    x: Floats
    y: Floats
    style: Literal["line", "curve", "points", "dashes"] = "line"
    colour: int = 0
    band: tuple[Floats, Floats] | None = None


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars in groups: one group a name, one bar of each label in it; `values` is (labels, groups)."""

    groups: Sequence[str]
    values: Mapping[str, Sequence[float]]
    text: str = "{:.2f}"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: lines or bars, its title and what its axes mean, units included."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Series] = ()
    bars: Bars | None = None
    log_x: bool = False
    log_y: bool = False
    percent_y: bool = False
    marks_y: Mapping[float, str] = field(default_factory=dict[float, str])
    marks_x: Mapping[float, str] = field(default_factory=dict[float, str])
    from_zero: bool = False
    x_ticks: Sequence[float] = ()

    def words(self) -> str:
        """Return what the panel shows in words, for those who cannot see it."""
        names = [series.label for series in self.lines if series.label]
        if self.bars:
            names = [
                f"{group}: {', '.join(self.bars.text.format(heights[place]) for heights in self.bars.values.values())}"
                for place, group in enumerate(self.bars.groups)
            ]
        of = f" ({'; '.join(names)})" if names else ""
        over = f" over {self.x_label}" if self.x_label else ""
        return f"{self.title}: {self.y_label}{over}{of}."


def draw(path: str | Path, title: str, panels: Sequence[Panel]) -> Path:
    """Draw the panels side by side, two a line, into a PNG file, or an SVG where its name says so, and return its path.

    Raises Unsupported when matplotlib is not installed; InvalidValue when the name ends in something else, or the file cannot
    be written.
    """
    target, form = Path(path), form_of(path)
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, loaded where it is used
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415
    except ImportError as error:
        raise Unsupported(
            "pictures need matplotlib, which is not installed", field="plot", hint="pip install matplotlib"
        ) from error
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(
        figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.5),
        layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.06),
    )
    FigureCanvasAgg(figure)
    figure.suptitle(headline(title, HEADLINE * columns), fontsize=13, fontweight="bold")
    for place, panel in enumerate(panels):
        _panel(figure.add_subplot(rows, columns, place + 1), panel)
    words: dict[str, Any] = described(title, *map(Panel.words, panels))
    if form == "svg":
        words["Date"] = None  # nor does it tell when it was drawn
    try:
        figure.savefig(target, dpi=DOTS_PER_INCH, format=form, metadata=words)
    except OSError as error:
        raise InvalidValue("plot", str(path), "a file that can be written", error.strerror or "") from error
    return target


def form_of(path: str | Path) -> str:
    """Return what a chart of this name is drawn as, before it is; raises InvalidValue where its name ends in something else."""
    form = FORMS.get(Path(path).suffix.lower())
    if form is None:
        raise InvalidValue("plot", Path(path).name, "a name that ends in .png or .svg")
    return form


def described(title: str, *sentences: str) -> dict[str, str]:
    """Return a picture's title and its description in words, as a PNG file holds them."""
    return {"Title": title, "Description": " ".join(sentences)}


def literal(text: str) -> str:
    """Return a text of the caller's as matplotlib shows it as it is: a $ begins no formula, an underscore hides no label.

    Letters that the font does not have become a box: matplotlib would warn of each on the user's terminal.
    """
    known = _letters()
    shown = "".join(letter if letter == "\n" or ord(letter) in known else UNKNOWN for letter in text).replace(
        "$", r"\$"
    )
    return f" {shown}" if shown.startswith("_") else shown


def shortened(text: str) -> str:
    """Return a name with its end left out where it is longer than a legend has room for."""
    return text if len(text) <= NAME_MAX else f"{text[: NAME_MAX - 1]}…"


def headline(text: str, letters: int) -> str:
    """Return a title as matplotlib shows it, on two lines of so many letters at most."""
    lines = textwrap.wrap(text, letters, max_lines=2, placeholder=" …") or [""]
    return "\n".join(map(literal, lines))


@lru_cache(maxsize=1)
def _letters() -> frozenset[int]:
    from matplotlib import font_manager  # noqa: PLC0415 - an extra, loaded where it is used

    return frozenset(font_manager.get_font(font_manager.findfont(font_manager.FontProperties())).get_charmap())


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(headline(panel.title, HEADLINE), fontsize=11)
    axes.set_xlabel(literal(panel.x_label))
    axes.set_ylabel(literal(panel.y_label))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y" if panel.bars else "both", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for place, series in enumerate(panel.lines):
        _line(axes, series, sum(_hides(later, series) for later in panel.lines[place + 1 :]), place)
    if panel.bars:
        _bars(axes, panel.bars)
    for height, text in panel.marks_y.items():
        axes.axhline(height, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            literal(text), (1.0, height), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color=GREY,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85},
        )  # fmt: skip
    if panel.from_zero:
        axes.set_ylim(bottom=0.0)
    for place, text in panel.marks_x.items():
        axes.axvline(place, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        left = axes.transData.transform((place, 0))[0] > axes.transAxes.transform((0.5, 0))[0]
        axes.annotate(
            text, (place, 0.04), xycoords=("data", "axes fraction"), xytext=(-4 if left else 4, 0),
            textcoords="offset points", ha="right" if left else "left", va="bottom", fontsize=8, color=GREY,
        )  # fmt: skip
    _ticks(axes, panel)
    if sum(bool(series.label) for series in panel.lines) > 1 or (panel.bars and len(panel.bars.values) > 1):
        axes.legend(frameon=False, fontsize=9)


def _hides(later: Series, series: Series) -> bool:
    """Return whether most of a line lies below one that is drawn after it."""
    if (
        later.style != "line"
        or series.style != "line"
        or len(later.x) != len(series.x)
        or not (later.x == series.x).all()
    ):
        return False
    return bool(np.isclose(later.y, series.y, rtol=1e-3).mean() > 0.5)


def _line(axes: Axes, series: Series, hidden: int, place: int) -> None:
    marker = MARKERS[series.colour % len(MARKERS)]
    colour = "#000000" if series.colour == BLACK else PALETTE[series.colour % len(PALETTE)]
    style: dict[str, Any] = {"color": colour, "label": literal(shortened(series.label)) or "_", "markersize": 4.5}
    if series.style == "points":
        style["markersize"] = 4.5 if len(series.x) < DENSE_POINTS else 2.5
        axes.plot(series.x, series.y, linestyle="none", marker=marker, alpha=0.5, **style)
    else:
        dashes = "--" if series.style == "dashes" else DASHES[series.colour // len(PALETTE) % len(DASHES)]
        few = len(series.x) <= MARKED_POINTS_MAX
        step = max(1, len(series.x) // MARKED_POINTS)
        axes.plot(
            series.x, series.y, linestyle=dashes, linewidth=WIDTH + EDGE * hidden,
            marker=marker if series.style == "line" and (few or series.colour >= 0) else None,
            markevery=1 if few else (place * step // 3 % step, step), **style,
        )  # fmt: skip
    if series.band is not None:
        axes.fill_between(series.x, *series.band, color=colour, alpha=0.15, linewidth=0)


def _bars(axes: Axes, bars: Bars) -> None:
    width = 0.8 / max(1, len(bars.values))
    places = np.arange(len(bars.groups))
    for number, (label, heights) in enumerate(bars.values.items()):
        offset = (number - (len(bars.values) - 1) / 2) * width
        drawn = axes.bar(
            places + offset,
            heights,
            width * 0.92,
            label=literal(shortened(label)),
            color=PALETTE[number % len(PALETTE)],
        )
        axes.bar_label(drawn, [bars.text.format(height) for height in heights], fontsize=7.5, padding=2)
    names = [shortened(group) for group in bars.groups]
    aslant = max((len(line) for name in names for line in name.split("\n")), default=0) * len(names) > ROOM
    axes.set_xticks(
        places, list(map(literal, names)), rotation=30 if aslant else 0, ha="right" if aslant else "center",
        rotation_mode="anchor" if aslant else "default",
    )  # fmt: skip
    axes.margins(y=0.15)


def _ticks(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator  # noqa: PLC0415

    plain, percent = FuncFormatter(_plain), FuncFormatter(_percent)
    if panel.log_x:
        low, high = axes.get_xlim()
        if high < 300 * low:  # few decades: name the steps between them too
            axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.xaxis.set_major_formatter(plain)
        axes.xaxis.set_minor_formatter(NullFormatter())
    elif panel.x_label == CORES:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.x_ticks:
        axes.set_xticks(list(panel.x_ticks))
        axes.xaxis.set_minor_locator(NullLocator())
    if panel.log_y:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
        axes.yaxis.set_minor_locator(NullLocator())
    if panel.log_y or panel.percent_y:
        axes.yaxis.set_major_formatter(percent if panel.percent_y else plain)


def _plain(value: float, _place: int | None = None) -> str:
    return f"{value:g}"


def _percent(value: float, _place: int | None = None) -> str:
    return f"{100 * value:g} %"
