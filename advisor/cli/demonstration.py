"""`advisor demo`."""

from __future__ import annotations

import click

from advisor.cli import options
from advisor.cli.options import Output, command
from advisor.cli.source import steps


@command(
    click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of sizes and order."),
)
def demo_command(seed: int) -> Output:
    """Stream real measurements to a service of its own, follow its advice, and print what that brought.

    Five data-parallel numpy components run on this machine: each invocation with the advised cores, with one core and with all
    cores, compared with the best in hindsight.
    """
    from rich.console import Console

    from advisor.demo.run import run_demo

    console = Console(stderr=options.wants_json())
    with steps() as bar:
        task = bar.add_task("real components", total=None)

        def tick(total: int) -> None:
            bar.update(task, total=total, advance=1)

        return Output(run_demo(seed=seed, console=console, tick=tick))
