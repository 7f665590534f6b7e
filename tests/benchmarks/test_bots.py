"""The figures of the OpenMP programs are shown for any choice of programs."""

from __future__ import annotations

import bots
import pytest


@pytest.mark.parametrize(("name", "shown"), [("floorplan", "none: "), ("sparselu", "geometric")])
def test_programs_of_two_sizes_alone_are_shown_without_errors(
    name: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        bots.Run(
            name, size, workers, elapsed_s=size / workers, work_s=size, delay_s=0.0, no_work_s=0.0, creates=10.0 * size,
            waits=1.0, span_s=0.1 * size, cpu_s=size, plain_s=size / workers, plain_cpu_s=size, simulated_s=size / workers,
        )
        for size in bots.PROGRAMS[name].sizes for workers in (1, 2)
    ]  # fmt: skip
    bots.show(runs)
    assert capsys.readouterr().out.count(shown) == 2
