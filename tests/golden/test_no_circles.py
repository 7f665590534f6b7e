"""No modules of advisor/ and adapters/ import one another in a circle: imports for type checkers and in functions count."""

from __future__ import annotations

import ast
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
