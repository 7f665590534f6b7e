"""What every test stands on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from advisor.models import fold


@pytest.fixture(autouse=True)
def _folds_in_numpy() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Each test begins with numpy folds; one that wants compiled ones says so (tests/laws/test_compiled_fold.py)."""
    fold.COMPILED.clear()
    yield
    fold.COMPILED.clear()
