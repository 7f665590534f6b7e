"""The two parts of the demo: each starts a service, streams to it, and prints what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

from rich.console import Console

from advisor.demo import paper, real, report
from advisor.demo.service_process import served
from advisor.kernels import can_compile
from advisor.kernels.source import mode_reported


def run_demo(
    *, parts: Sequence[str], seed: int, console: Console, tick: Callable[[str, int], object]
) -> dict[str, Any]:
    """Run the parts ``a`` and ``b``, print what was measured; return all of it as a plain mapping.

    Each part has a service process of its own. Raises Unsupported when the extra ``plot`` is not installed; ConnectionFailed
    when the service does not start.
    """
    _compiled(console)
    results: dict[str, Any] = {}
    if "a" in parts:
        start, records = perf_counter(), real.RECORDS_LEARNED + real.RECORDS_JUDGED
        with served("demo-real") as client:
            judged = real.run_real(client, seed, tick=lambda: tick("real components", records))
        report.print_real(console, judged)
        results["real"] = report.real_as_dict(judged) | _footer(console, start)
    if "b" in parts:
        start = perf_counter()
        with served("demo-paper") as client:
            streamed = paper.run_paper(client, seed, tick=lambda: tick("the paper's setting", paper.CHUNKS))
        report.print_paper(console, streamed)
        results["paper"] = report.paper_as_dict(streamed) | _footer(console, start)
    return results


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


def _footer(console: Console, start: float) -> dict[str, Any]:
    seconds = perf_counter() - start
    console.print(f"{seconds:.1f} s in all.\n", highlight=False)
    return {"seconds": seconds}
