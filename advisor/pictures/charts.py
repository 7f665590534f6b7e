"""Panels of lines and bars, drawn to one PNG file.

The figure is drawn without pyplot: no global state, no display, safe in any thread. Colours are Okabe and Ito's, which
colour-blind readers tell apart; lines differ in marker as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from advisor.errors import InvalidValue, Unsupported

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#666666"
PANEL_INCHES = (6.4, 4.4)
MARKED_POINTS_MAX = 40  # of a line: more markers than that hide it
DENSE_POINTS = 500  # more points than that are drawn smaller
DOTS_PER_INCH = 130
CORES = "cores"  # the label of an axis that has whole numbers only


@dataclass(frozen=True, slots=True)
class Series:
    """Points (x, y) under one label, joined by a line unless `style` is ``points``; `band` is low and high around y."""

    label: str
    x: Floats
    y: Floats
    style: Literal["line", "points", "dashes"] = "line"
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


def draw(path: str | Path, title: str, panels: Sequence[Panel]) -> Path:
    """Draw the panels side by side, two a line, into a PNG file and return its path.

    Raises
    ------
    Unsupported
        When matplotlib is not installed.
    InvalidValue
        When the file cannot be written.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, loaded where it is used
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415
    except ImportError as error:
        raise Unsupported(
            "pictures need matplotlib, which is not installed", field="plot", hint="pip install 'core-advisor[plot]'"
        ) from error
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(
        figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.5),
        layout=ConstrainedLayoutEngine(wspace=0.06, hspace=0.06),
    )
    FigureCanvasAgg(figure)
    figure.suptitle(literal(title), fontsize=13, fontweight="bold")
    for place, panel in enumerate(panels):
        _panel(figure.add_subplot(rows, columns, place + 1), panel)
    target = Path(path)
    try:
        figure.savefig(target, dpi=DOTS_PER_INCH, format="png")
    except OSError as error:
        raise InvalidValue("plot", str(path), "a file that can be written", error.strerror or "") from error
    return target


def literal(text: str) -> str:
    """Return a text of the caller's as matplotlib shows it as it is: a $ begins no formula, an underscore hides no label."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown


def _panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(literal(panel.title), fontsize=11)
    axes.set_xlabel(literal(panel.x_label))
    axes.set_ylabel(literal(panel.y_label))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y" if panel.bars else "both", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.log_x:
        axes.set_xscale("log")
    if panel.log_y:
        axes.set_yscale("log")
    for series in panel.lines:
        _line(axes, series)
    if panel.bars:
        _bars(axes, panel.bars)
    for height, text in panel.marks_y.items():
        axes.axhline(height, color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.annotate(
            literal(text), (1.0, height), xycoords=("axes fraction", "data"), xytext=(-2, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize=8, color=GREY,
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


def _line(axes: Axes, series: Series) -> None:
    colour, marker = PALETTE[series.colour % len(PALETTE)], MARKERS[series.colour % len(MARKERS)]
    style: dict[str, Any] = {"color": colour, "label": literal(series.label) or "_", "markersize": 4.5}
    if series.style == "points":
        style["markersize"] = 4.5 if len(series.x) < DENSE_POINTS else 2.5
        axes.plot(series.x, series.y, linestyle="none", marker=marker, alpha=0.5, **style)
    else:
        dashes = "--" if series.style == "dashes" else "-"
        shown = marker if series.style == "line" and len(series.x) <= MARKED_POINTS_MAX else None
        axes.plot(series.x, series.y, linestyle=dashes, linewidth=1.8, marker=shown, **style)
    if series.band is not None:
        axes.fill_between(series.x, *series.band, color=colour, alpha=0.15, linewidth=0)


def _bars(axes: Axes, bars: Bars) -> None:
    width = 0.8 / max(1, len(bars.values))
    places = np.arange(len(bars.groups))
    for number, (label, heights) in enumerate(bars.values.items()):
        offset = (number - (len(bars.values) - 1) / 2) * width
        drawn = axes.bar(
            places + offset, heights, width * 0.92, label=literal(label), color=PALETTE[number % len(PALETTE)]
        )
        axes.bar_label(drawn, [bars.text.format(height) for height in heights], fontsize=7.5, padding=2)
    axes.set_xticks(places, [literal(group) for group in bars.groups])
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
