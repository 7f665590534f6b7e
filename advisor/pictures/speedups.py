"""Speedups and makespans of an analysed task graph over cores, drawn to one PNG or SVG file by matplotlib."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from advisor.errors import InvalidValue, Unsupported
from advisor.simulation.words import scaled

PALETTE = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
)  # Okabe and Ito's: distinct without red or green
MARKERS = "os^DvPX"  # one more than colours: both come round together only after 42 lines
INCHES = (12.8, 4.9)
DOTS_PER_INCH = 130


def draw_speedups(path: str | Path, title: str, result: Mapping[str, Any]) -> Path:
    """Draw speedup and makespan over cores, a line a policy, from an answer of `advisor.simulation.answer`.

    Raises Unsupported when matplotlib is not installed; InvalidValue when the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, loaded where it is used
    except ImportError as error:
        raise Unsupported(
            "pictures need matplotlib, which is not installed", field="plot", hint="pip install matplotlib"
        ) from error
    rows = result["results"]
    cores = sorted({row["cores"] for row in rows})
    factor, unit = scaled(max(row["makespan"] for row in rows), result["unit"])
    # What no schedule is below, whatever the policy: it knows of the processors' speeds.
    least_of = {row["cores"]: max(row["bounds"]["work"], row["bounds"]["span"]) for row in rows}
    figure = Figure(figsize=INCHES, layout="constrained")
    figure.suptitle(_literal(title), fontweight="bold")
    speedup, makespan = figure.subplots(1, 2)
    for place, name in enumerate(dict.fromkeys(row["policy"] for row in rows)):
        mine = sorted((row for row in rows if row["policy"] == name), key=lambda row: row["cores"])
        x = [row["cores"] for row in mine]
        style: dict[str, Any] = {"color": PALETTE[place % len(PALETTE)], "marker": MARKERS[place % len(MARKERS)]}
        speedup.plot(x, [row["speedup"] for row in mine], label=_literal(name), **style)
        makespan.plot(x, [row["makespan"] * factor for row in mine], label=_literal(name), **style)
    bound: dict[str, Any] = {"color": "#000000", "linestyle": "--", "marker": "_"}
    above = [result["work"] / least_of[count] if least_of[count] > 0 else count for count in cores]
    speedup.plot(cores, above, label="no schedule above", **bound)
    makespan.plot(cores, [least_of[count] * factor for count in cores], label="no schedule below", **bound)
    if min(row["makespan"] for row in rows) > 0:
        makespan.set_yscale("log")
    time = f"time [{unit}]" if unit else "time"
    for axes, heading, label in ((speedup, "Speedup over one core", "speedup"), (makespan, "Makespan", time)):
        axes.set(title=heading, xlabel="cores", ylabel=label)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.grid(visible=True, color="#dddddd")
        axes.legend(frameon=False)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters that the font does not have are boxes
        try:
            figure.savefig(path, dpi=DOTS_PER_INCH, metadata={"Title": title})
        except OSError as error:
            raise InvalidValue("plot", str(path), "a file that can be written", error.strerror or "") from error
    return Path(path)


def _literal(text: str) -> str:
    """Return a text of the caller's as matplotlib shows it as it is: a $ begins no formula, an underscore hides no label."""
    shown = text.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
