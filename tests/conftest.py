"""What every test stands on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from advisor.models import fold, posterior

# What a commit's tests say depends on the commit alone. `pytest --hypothesis-profile=search` draws new examples at each run.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("search", print_blob=True)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _in_numpy() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]
    """Each test begins with numpy; one that wants compiled folds or answers says so (tests/laws/test_compiled_fold.py)."""
    for kernels in (fold.COMPILED, posterior.COMPILED):
        kernels.clear()
    yield
    for kernels in (fold.COMPILED, posterior.COMPILED):
        kernels.clear()
