"""Speedups of analysed graphs as pictures."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from advisor.domain.task_graphs import task_graph
from advisor.errors import InvalidValue, Unsupported
from advisor.pictures.speedups import draw_speedups
from advisor.simulation import AnalysisRequest, answer
from advisor.simulation.shapes import polyroots


def drawn(path: Path, graph: Any, **request: Any) -> Path:
    return draw_speedups(path, "_$m^{$ 漢字", answer(graph, AnalysisRequest(**request)))


def test_speedups_are_drawn_with_names_as_they_are(tmp_path: Path) -> None:
    for graph in (polyroots(), task_graph([]), task_graph([1.0, 2.0])):
        for cores in ([1, 4, 8], [4]):
            policies = ["fifo", "lpt", lambda ready, processor: ready[0]]
            with Image.open(drawn(tmp_path / "s.png", graph, cores=cores, policies=policies)) as picture:
                assert picture.info["Title"] == "_$m^{$ 漢字"
    assert drawn(tmp_path / "s.svg", polyroots()).read_text(encoding="utf-8").startswith("<?xml")


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidValue, match="nowhere"):
        drawn(tmp_path / "nowhere" / "s.png", polyroots())
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(Unsupported, match="pip install matplotlib"):
        drawn(tmp_path / "s.png", polyroots())
