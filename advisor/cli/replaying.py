"""`advisor replay`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show
from advisor.cli.advising import known_components
from advisor.cli.options import Output, command
from advisor.cli.source import moves, progress, tell_refused, tell_separator, written

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.files import ComponentScore, TableReader


@command(
    click.argument("tables", nargs=-1, required=True, metavar="TABLE..."),
    click.option("--out", type=options.PATH, help="Write what was learned there, as `advisor import` reads it."),
    click.option("--limit", default=20, show_default=True, help="Components to show, most rows first; 0 shows all."),
    options.columns,
)  # fmt: skip
def replay_command(
    tables: tuple[str, ...], out: Path | None, limit: int, columns: dict[str, str] | None
) -> Output:  # fmt: skip
    """Stream each TABLE through a fresh advisor: CSV with columns component,x,p,t, or component,predictor,
    cores,elapsed_s, or as --columns says; - is standard input.

    Each row is predicted before it is learned; a component's errors are |predicted - t| / t over its rows, the first five
    not counted: half of them are below the median, nine of ten below the next. Beside them stands the model that the
    tables led to.
    """
    from advisor import Advisor
    from advisor.files import Prequential, TableReader

    advisor = Advisor()
    prequential = Prequential(advisor)
    readers: list[TableReader] = []
    for table in tables:
        with TableReader(table, columns) as reader, progress() as bar:
            tell_separator(reader)
            prequential.report_progress(moves(bar, "replaying", reader))
            for chunk in reader.chunks():
                prequential.predict_and_learn(chunk)
        tell_refused(reader)
        readers.append(reader)
    if out:
        written(out, advisor.extract())
    result: dict[str, Any] = {
        "table": ", ".join(each.name for each in readers), "rows": sum(each.rows for each in readers),
        "refused": sum(each.refused for each in readers), "components": _components(advisor, prequential.scores),
    }  # fmt: skip
    result |= {"out": str(out)} if out else {}
    return Output(result, show.replayed(result, limit))


def _components(advisor: Advisor, scores: Mapping[str, ComponentScore]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry in known_components(advisor, True):
        score = scores[entry["component"]]
        errors = {"online_error": score.error, "online_bias": score.bias}
        errors |= {"online_error_median": score.quantile(0.5), "online_error_9_of_10": score.quantile(0.9)}
        found.append({**entry, "scored": score.scored, **errors})
    return sorted(found, key=lambda each: (-scores[each["component"]].rows, each["component"]))
