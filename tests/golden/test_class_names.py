"""A class name means one thing: none is given twice in advisor/ and adapters/."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
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
