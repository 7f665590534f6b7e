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
    from advisor.files import ComponentScore


@command(
    click.argument("tables", nargs=-1, required=True, metavar="TABLE..."),
    click.option("--out", type=options.PATH, help="Write what was learned there, as `advisor import` reads it."),
    click.option("--limit", default=20, show_default=True, help="Components to show, most rows first; 0 shows all."),
    options.columns,
)  # fmt: skip
def replay_command(
    tables: tuple[str, ...], engine: str, out: Path | None, limit: int, columns: dict[str, str] | None
) -> Output:  # fmt: skip
    """Stream each TABLE through a fresh advisor: CSV or Parquet, with columns component,x,p,t, or component,predictor,
    cores,elapsed_s, or as --columns says; - is standard input.

    Each row is predicted before it is learned; a component's errors are |predicted - t| / t over its rows, the first five
    not counted: half of them are below the median, nine of ten below the next. Beside them stands the model that the
    tables led to.
    """
    replayed = (_here if engine == "here" else _on_ray)(tables, columns, engine, out)
    result: dict[str, Any] = {
        "table": ", ".join(each.name for each in replayed.files), "rows": sum(each.rows for each in replayed.files),
        "refused": sum(each.refused for each in replayed.files), "components": _components(replayed.components),
    }  # fmt: skip
    result |= {"out": str(out)} if out else {}
    return Output(result, show.replayed(result, limit))


class Replayed(NamedTuple):
    """What was read, and of each component the entry of its status and its score."""

    files: Sequence[Any]
    components: Sequence[tuple[Mapping[str, Any], ComponentScore]]


def _here(tables: Sequence[str], columns: dict[str, str] | None, engine: str, out: Path | None) -> Replayed:
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
    scores = prequential.scores
    names = sorted(scores)
    pages = [names[start : start + STATUS_PAGE_MAX] for start in range(0, len(names), STATUS_PAGE_MAX)]
    entries = [each for page in pages for each in advisor.status(components=page, limit=STATUS_PAGE_MAX)["components"]]
    if out:
        written(out, advisor.extract())
    return Replayed(readers, [(entry, scores[entry["component"]]) for entry in entries])


def _on_ray(tables: Sequence[str], columns: dict[str, str] | None, engine: str, out: Path | None) -> Replayed:
    from advisor.cluster import offline
    from advisor.cluster.actors import RayTasks
    from advisor.service.option_types import checked_engine

    if "-" in tables:
        raise InvalidValue("table", "-", "left out with --engine ray", "it cannot be read by several processes")
    tasks = RayTasks(checked_engine("engine", engine))
    try:
        found = offline.replay([str(Path(table).absolute()) for table in tables], columns, tasks, 2 * tasks.cores())
        if out:
            written(out, found.state())
    finally:
        tasks.close()
    for each in found.files:
        tell_separator(each)
        tell_refused(each)
    return Replayed(found.files, found.components)


def _components(components: Sequence[tuple[Mapping[str, Any], ComponentScore]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for entry, score in sorted(components, key=lambda each: (-each[1].rows, each[0]["component"])):
        errors = {"online_error": score.error, "online_bias": score.bias}
        errors |= {"online_error_median": score.quantile(0.5), "online_error_9_of_10": score.quantile(0.9)}
        found.append({**entry, "scored": score.scored, **errors})
    return found
