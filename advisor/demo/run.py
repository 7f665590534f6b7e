"""The demo: starts a service, streams to it, and prints what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

from rich.console import Console

from advisor.demo import real, report
from advisor.demo.service_process import served
from advisor.kernels import can_compile
from advisor.kernels.source import mode_reported


def run_demo(*, seed: int, console: Console, tick: Callable[[int], object]) -> dict[str, Any]:
    """Run the demo with a service process of its own, print what was measured, and return it as a plain mapping.

    Raises Unsupported when the extra ``threads`` is not installed; ConnectionFailed when the service does not start.
    """
    _compiled(console)
    start, records = perf_counter(), real.RECORDS_LEARNED + real.RECORDS_JUDGED
    with served("demo-real") as client:
        judged = real.run_real(client, seed, tick=lambda: tick(records))
    report.print_real(console, judged)
    seconds = perf_counter() - start
    console.print(f"{seconds:.1f} s in all.\n", highlight=False)
    return {"real": report.real_as_dict(judged) | {"seconds": seconds}}


def _compiled(console: Console) -> None:
    """Compile the kernels that answer where this installation has not yet: a service would do it beside its first answers."""
    from advisor.models.fold import KERNELS  # noqa: PLC0415 - the command that only prints its help needs none

    if mode_reported() == "auto" and can_compile() and KERNELS.library() is None:
        console.print(
            "Compiling the kernels, once for this installation: about a minute of processor time.", highlight=False
        )
        start = perf_counter()
        subprocess.run([sys.executable, "-m", "advisor.kernels", KERNELS.module], check=False)  # noqa: S603 - our own module
        console.print(
            f"Compiled in {perf_counter() - start:.0f} s; what follows is measured with them.", highlight=False
        )
