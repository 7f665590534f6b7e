"""Terminals of 60, 80 and 100 columns: cells are folded, nothing is cut."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from tables import write_table
from terminal import in_pipe, in_terminal

from advisor.domain.observations import ComponentNames, columns_of

NAMES = ("org.example.pipeline.Denoise$apply", "resample", "mux", "encode(video, h264)")
NETWORK = "box resample ((a) -> (b)); box mux ((b) -> (c)); box other ((b) -> (c)); net film connect resample .. (mux | other);"
EVENTS = Path(__file__).parents[1] / "golden" / "nqueens-9.events"
NARROW = (60, 80, 100)


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str | Path]]:
    """Return every command that prints a table, on a state that was learned."""
    folder = tmp_path_factory.mktemp("terminal")
    rng = np.random.default_rng(3)
    names = [*NAMES, "other"]
    index = rng.integers(0, len(names), 400)
    x, p = rng.choice([1500.0, 123456.0, 7.25e6], 400), rng.choice([1.0, 2.0, 4.0, 16.0], 400)
    t = 1e-6 * x * (0.1 + 0.9 / p) * (1 + index) * np.exp(0.05 * rng.standard_normal(400))
    table, network = folder / "table.csv", folder / "film.snet"
    write_table(table, [columns_of(ComponentNames(names), index, x, p, t)])
    network.write_text(NETWORK)
    both = [{"network": NETWORK, "name": "film", "shares": [[1, 0]]}, {"network": "mux .. resample", "name": "sound"}]
    (folder / "both.json").write_text(json.dumps(both))
    graph = folder / "graph.json"
    graph.write_text(json.dumps({"unit": "ms", "tasks": [{"id": str(i), "time": float(i)} for i in range(1, 30)]}))
    of = ("--table", table)
    return {
        "export": ["export", folder / "a", *of],
        "status": ["status", *of],
        "replay": ["replay", table],
        "predict": ["predict", NAMES[0], "--predictor", "1500,9.87e6", "--cores", "1,64", *of],
        "choose-cores": ["choose-cores", "mux", "--predictor", "1500", "--cores-max", "16", *of],
        "suggest": ["suggest", "mux", "--cores-max", "64", *of],
        "allocate": ["allocate", network, "--cores", "16", *of, "--shares", "1,0"],
        "sweep": ["allocate", network, "--sweep", "cores=1..12", *of, "--shares", "1,0"],
        "together": ["allocate-together", folder / "both.json", "--cores", "8", *of],
        "network": ["network", network],
        "profile": ["profile", EVENTS],
        "simulate": ["simulate", graph, "--cores", "2", "--policy", "fifo"],
    }


@pytest.fixture(scope="module")
def wide(commands: dict[str, list[str | Path]]) -> dict[str, str]:
    """Return what each command tells a pipe."""
    return dict(zip(commands, in_pipe(list(commands.values())), strict=True))


@pytest.mark.parametrize("columns", NARROW)
def test_no_line_is_too_long_and_nothing_is_cut(
    commands: dict[str, list[str | Path]], wide: dict[str, str], columns: int
) -> None:
    for name, narrow in zip(commands, in_terminal(list(commands.values()), columns), strict=True):
        assert wide[name].strip(), name
        assert max(map(cell_len, narrow.splitlines())) <= columns, name
        # folding moves characters to other lines and takes none away
        assert Counter("".join(narrow.split())) == Counter("".join(wide[name].split())), name


def test_a_progress_bar_moves_within_a_chunk_of_the_file(commands: dict[str, list[str | Path]]) -> None:
    (seen,) = in_terminal([commands["replay"]], 100, errors=True)
    assert len(set(re.findall(r"replaying ([\d,]+) rows", seen))) >= 2
    assert "replaying 400 rows" in seen
