"""The source tree: no circle of imports (those for type checkers and in functions count), no long file, one class a name."""

from __future__ import annotations

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules() -> dict[str, Path]:
    """Return the file of each module by its name."""
    found: dict[str, Path] = {}
    for tree, above in (("advisor", ()), ("adapters", ("advisor",))):
        for file in (ROOT / tree).glob("**/*.py"):
            parts = (*above, *file.relative_to(ROOT).with_suffix("").parts)
            if above or parts[:2] != ("advisor", "adapters"):
                found[".".join(parts).removesuffix(".__init__")] = file
    return found


def graph(known: dict[str, Path]) -> dict[str, set[str]]:
    """Return what each module imports: the module that a name stands in, not the package that hands it out."""

    def module(name: str) -> str:
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    edges: dict[str, set[str]] = {}
    for name, file in known.items():
        imported: set[str] = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported |= {module(each.name) for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {module(f"{node.module}.{each.name}") for each in node.names}
        edges[name] = imported - {"", name}
    return edges


def test_no_module_imports_itself_through_others() -> None:
    edges = graph(modules())
    assert len(edges) > 300
    TopologicalSorter(edges).prepare()  # raises CycleError, with the circle
    edges["advisor.errors"] = {"advisor.engine.engine"}
    with pytest.raises(CycleError):
        TopologicalSorter(edges).prepare()


SEVERAL: dict[str, str] = {}  # a name that several classes have -> why


def test_a_class_name_is_given_once() -> None:
    places = defaultdict[str, list[str]](list)
    for file in sorted([*(ROOT / "advisor").glob("**/*.py"), *(ROOT / "adapters").glob("**/*.py")]):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{file.relative_to(ROOT)}:{node.lineno}")
    several = {name: found for name, found in places.items() if len(found) > 1 and name not in SEVERAL}
    assert not several
    assert len(places) > 400
    assert not [name for name in SEVERAL if len(places[name]) < 2]


def test_no_module_is_longer_than_a_reader_keeps_in_mind() -> None:
    """400 lines a file; `Advisor`, by chapters in one file, may have 650."""
    most = {"advisor.engine.advisor": 650}
    lines = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in modules().items()}
    assert not {name: count for name, count in lines.items() if count > most.get(name, 400)}
