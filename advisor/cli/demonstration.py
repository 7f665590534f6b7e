"""`advisor demo`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from advisor.cli import tables
from advisor.cli.options import Output, command
from advisor.cli.source import progress
from advisor.cli.tables import Column, Printed, table


@command(
    click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of sizes and order."),
)
def demo_command(seed: int) -> Output:
    """Learn from real measurements, follow the advice, and print what that brought.

    Three data-parallel numpy components run on this machine: each invocation with the advised cores, with one core and with
    all cores, compared with the best in hindsight.
    """
    from advisor.demo.real import run_demo

    with progress() as bar:
        task = bar.add_task("real components", total=None)
        found = run_demo(seed=seed, tick=lambda total: bar.update(task, total=total, advance=1))
    return Output(found, judged(found["real"]))


def judged(found: Mapping[str, Any]) -> Iterator[Printed]:
    """Yield what each policy brought."""
    yield (
        f"Real components, {found['cores']} cores here. {found['runs_learned']} runs to learn from, then "
        f"{found['invocations']} invocations judged: each input ran with every policy's cores, interleaved."
    )
    rows: list[dict[str, Any]] = [
        {"policy": policy, **each, **each["components_s"]} for policy, each in found["policies"].items()
    ]
    names: list[str] = [*rows[0]["components_s"]]
    yield table(
        [
            Column("policy", "policy"), Column("seconds", "total_s", _thousandths),
            Column("regret", "regret", "{:+.1%}".format),
            Column("core-seconds", "core_s", _thousandths), Column("right choices", "right_share", "{:.0%}".format),
            *(Column(name, name, _thousandths) for name in names),
        ],
        rows,
    )  # fmt: skip
    yield (
        "Regret: seconds over the hindsight best, which picks the luckier of noisy times: nobody reaches it. Right: within 5% "
        f"of it. Asking took {tables.seconds(found['ask_median_s'])} (median), which is not in the table."
    )
    if found["load_average"] > found["cores"] / 2:
        yield f"The machine was busy with other work (load {found['load_average']:.1f}): the noise is large."
    yield f"{found['seconds']:.1f} s in all."


def _thousandths(seconds: float) -> str:
    return f"{seconds:.3f}"
