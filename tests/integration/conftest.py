"""Programs with OpenMP, compiled once for all modules that run them."""

from __future__ import annotations

import pytest
from omp_programs import Programs, compiled_programs


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return compiled_programs(tmp_path_factory.mktemp("openmp"))
