"""What every test stands on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from advisor.models import fold

# What a commit's tests say depends on the commit alone. `pytest --hypothesis-profile=search` draws new examples at each run.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _folds_in_numpy() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Each test begins with numpy folds; one that wants compiled ones says so (tests/laws/test_compiled_fold.py)."""
    fold.COMPILED.clear()
    yield
    fold.COMPILED.clear()
