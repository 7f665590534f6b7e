"""`advisor replay`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, show
from advisor.cli.source import moves, progress, tell_refused, tell_separator
from advisor.domain.limits import STATUS_PAGE_MAX

if TYPE_CHECKING:
    from advisor import Advisor
    from advisor.files import ComponentScore


@click.command("replay", cls=options.Command)
@click.argument("table")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw errors and curves into this PNG or SVG.")
@click.option("--limit", default=20, show_default=True, help="Components to show, most rows first; 0 shows all.")
@options.columns
@options.as_json
def replay_command(table: str, plot: Path | None, limit: int, columns: dict[str, str] | None, as_json: bool) -> None:
    """Stream TABLE (CSV: component,x,p,t, or --columns; - is standard input) through a fresh advisor, row by row.

    Each row is predicted before it is learned; a component's errors are |predicted - t| / t over its rows, the first five
    not counted: half of them are below the median, nine of ten below the next. Beside them stands the model that the
    table led to.
    """
    from advisor import Advisor
    from advisor.files import Prequential, Sample, TableReader, replay

    if plot:
        from advisor.pictures import form_of

        form_of(plot)  # what could not be drawn is refused before anything is replayed
    advisor = Advisor()
    sample = Sample()
    with TableReader(table, columns) as reader, progress() as bar:
        tell_separator(reader)
        prequential = Prequential(advisor, told=moves(bar, "replaying", reader))
        for _ in replay(reader.chunks(), prequential, sample if plot else None):
            pass
    tell_refused(reader)
    scores = prequential.scores[None]
    result: dict[str, Any] = {"table": reader.name, "rows": reader.rows, "refused": reader.refused}
    result["components"] = _components(advisor, scores)
    if plot:
        result["plot"] = str(_draw(plot, f"{Path(reader.name).name}: {reader.rows} rows", advisor, scores, sample.rows))
    show.replayed(result, limit, as_json=as_json)


def _components(advisor: Advisor, scores: dict[str, ComponentScore]) -> list[dict[str, Any]]:
    names = sorted(scores, key=lambda name: (-scores[name].rows, name))
    found: list[dict[str, Any]] = []
    for start in range(0, len(names), STATUS_PAGE_MAX):
        page = names[start : start + STATUS_PAGE_MAX]
        for entry in advisor.status(components=page, limit=STATUS_PAGE_MAX)["components"]:
            score = scores[entry["component"]]
            errors = {"online_error": score.error, "online_bias": score.bias}
            errors |= {"online_error_median": score.quantile(0.5), "online_error_9_of_10": score.quantile(0.9)}
            found.append(entry | {"scored": score.scored} | errors)
    return found


def _draw(plot: Path, title: str, advisor: Advisor, scores: dict[str, ComponentScore], rows: list[Any]) -> Path:
    from advisor.pictures import draw_replay

    online = {name: score.online() for name, score in scores.items() if score.scored}
    return draw_replay(
        plot, title, online, rows, lambda name, x, p: advisor.predict(name, predictor=x, cores=p).elapsed_s
    )
