"""`advisor replay`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from advisor.cli import options, show
from advisor.cli.options import Output, command
from advisor.cli.source import moves, progress, tell_refused, tell_separator, written
from advisor.domain.limits import STATUS_PAGE_MAX

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.files import ComponentScore


@command(
    click.argument("tables", nargs=-1, required=True, metavar="TABLE..."),
    click.option("--out", type=options.PATH, help="Write what was learned there, as `advisor import` reads it."),
    click.option("--plot", type=options.PATH, help="Draw errors and curves into this PNG or SVG."),
    click.option("--limit", default=20, show_default=True, help="Components to show, most rows first; 0 shows all."),
    options.columns,
)  # fmt: skip
def replay_command(
    tables: tuple[str, ...], out: Path | None, plot: Path | None, limit: int, columns: dict[str, str] | None
) -> Output:  # fmt: skip
    """Stream each TABLE through a fresh advisor: CSV or Parquet, with columns component,x,p,t, or component,predictor,
    cores,elapsed_s, or as --columns says; - is standard input.

    Each row is predicted before it is learned; a component's errors are |predicted - t| / t over its rows, the first five
    not counted: half of them are below the median, nine of ten below the next. Beside them stands the model that the
    tables led to.
    """
    if plot:
        from advisor.pictures import form_of

        form_of(plot)  # what could not be drawn is refused before anything is replayed
    replayed = _replayed(tables, columns, out, plot)
    result: dict[str, Any] = {
        "table": ", ".join(each.name for each in replayed.files), "rows": sum(each.rows for each in replayed.files),
        "refused": sum(each.refused for each in replayed.files), "components": _components(replayed.components),
    }  # fmt: skip
    result |= {key: str(path) for key, path in (("plot", plot), ("out", out)) if path}
    return Output(result, show.replayed(result, limit))


class Replayed(NamedTuple):
    """What was read, and of each component the entry of its status and its score."""

    files: Sequence[Any]
    components: Sequence[tuple[Mapping[str, Any], ComponentScore]]


def _replayed(tables: Sequence[str], columns: dict[str, str] | None, out: Path | None, plot: Path | None) -> Replayed:
    from advisor import Advisor
    from advisor.files import Prequential, Sample, TableReader, replay

    advisor, sample = Advisor(), Sample()
    prequential = Prequential(advisor)
    readers: list[TableReader] = []
    for table in tables:
        with TableReader(table, columns) as reader, progress() as bar:
            tell_separator(reader)
            prequential.report_progress(moves(bar, "replaying", reader))
            for _ in replay(reader.chunks(), prequential, sample if plot else None):
                pass
        tell_refused(reader)
        readers.append(reader)
    scores = prequential.scores[None]
    names = sorted(scores)
    pages = [names[start : start + STATUS_PAGE_MAX] for start in range(0, len(names), STATUS_PAGE_MAX)]
    entries = [each for page in pages for each in advisor.status(components=page, limit=STATUS_PAGE_MAX)["components"]]
    if out:
        written(out, advisor.extract())
    if plot:
        rows = sum(reader.rows for reader in readers)
        _draw(plot, f"{Path(readers[0].name).name}: {rows} rows", advisor, scores, sample.rows)
    return Replayed(readers, [(entry, scores[entry["component"]]) for entry in entries])


def _components(components: Sequence[tuple[Mapping[str, Any], ComponentScore]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry, score in sorted(components, key=lambda each: (-each[1].rows, each[0]["component"])):
        errors = {"online_error": score.error, "online_bias": score.bias}
        errors |= {"online_error_median": score.quantile(0.5), "online_error_9_of_10": score.quantile(0.9)}
        found.append({**entry, "scored": score.scored, **errors})
    return found


def _draw(plot: Path, title: str, advisor: Advisor, scores: dict[str, ComponentScore], rows: list[Any]) -> Path:
    from advisor.pictures import draw_replay

    online = {name: score.online() for name, score in scores.items() if score.scored}
    return draw_replay(
        plot, title, online, rows, lambda name, x, p: advisor.predict(name, predictor=x, cores=p).elapsed_s
    )
