"""`advisor replay`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli import options, show_status
from advisor.cli.advising import known_components
from advisor.cli.options import Output, command
from advisor.cli.source import learn_table, written
from advisor.cli.tables import Printed, dim, several

SCORES = ("scores", "coverage", "score_error", "score_bias")


@command(
    click.argument("tables", nargs=-1, required=True, metavar="TABLE..."),
    click.option("--out", type=options.PATH, help="Write what was learned there, as `advisor import` reads it."),
    click.option("--limit", type=click.IntRange(0), default=20, show_default=True,
                 help="Components to show, most rows first; 0 shows all."),
    options.columns,
)  # fmt: skip
def replay_command(
    tables: tuple[str, ...], out: Path | None, limit: int, columns: dict[str, str] | None
) -> Output:  # fmt: skip
    """Stream each TABLE through a fresh advisor: CSV with columns component,x,p,t, or component,predictor,cores,elapsed_s,
    or as --columns says; - is standard input.

    Each row is predicted before it is learned; a component's first rows are not scored. Error is the mean of
    |t - predicted| / t, bias its signed mean, "in 90%" the share of rows within their 90 % interval.
    """
    from advisor import Advisor

    advisor = Advisor()
    readers = [learn_table(advisor, table, columns, "replaying") for table in tables]
    if out:
        written(out, advisor.extract())
    entries = sorted(known_components(advisor, True), key=lambda each: (-each["rows"], each["component"]))
    totals = advisor.status(components=False)
    result: dict[str, Any] = {
        "table": ", ".join(each.name for each in readers), "rows": sum(each.rows for each in readers),
        "refused": sum(each.refused for each in readers), **{key: totals[key] for key in SCORES}, "components": entries,
    }  # fmt: skip
    shown = entries[: limit or None]
    printed: list[Printed] = [
        show_status.components(shown),
        f"{several(result['rows'], 'row')}, {several(len(entries), 'component')}",
    ]
    if len(shown) < len(entries):
        printed.insert(1, dim(f"{several(len(entries) - len(shown), 'more component')}: --limit 0 shows all"))
    printed += show_status.scored(totals)
    if out:
        result["out"] = str(out)
        printed.append(f"what was learned: {out}")
    return Output(result, printed)
