"""`advisor demo`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.options import Output, command
from advisor.cli.source import steps


@command(
    click.option("--part", type=click.Choice(["a", "b"]), help="Run one part only: a, real, or b, the paper's setting."),
    click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True,
                 help="Seed of sizes, noise and order."),
)  # fmt: skip
def demo_command(part: str | None, seed: int) -> Output:
    """Stream real and generated measurements to a service of its own, follow its advice, and print what that brought.

    (a) Five data-parallel numpy components on this machine: each invocation runs with the advised cores, with one core and
    with all cores, and is compared with the best in hindsight. (b) The setting of the paper that the model comes from: 48
    cores, four components, online error and the allocation of a pipeline, judged on the true curves.
    """
    from rich.console import Console

    from advisor.demo.parts import run_demo

    console = Console(stderr=options.wants_json())
    with steps() as bar:
        tasks: dict[str, object] = {}

        def tick(name: str, total: int) -> None:
            if name not in tasks:
                tasks[name] = bar.add_task(name, total=total)
            bar.advance(tasks[name])  # pyright: ignore[reportArgumentType]

        result = run_demo(parts=(part,) if part else ("a", "b"), seed=seed, console=console, tick=tick)
    return Output(result)
