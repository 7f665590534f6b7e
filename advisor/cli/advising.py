"""`advisor advise`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options
from advisor.cli.options import Output, command
from advisor.cli.source import asked, written
from advisor.cli.tables import several, size
from advisor.domain.limits import STATUS_PAGE_MAX
from advisor.domain.wording import seconds
from advisor.errors import NotEnoughData
from advisor.files.settings import WRITERS, AdvisedSetting

if TYPE_CHECKING:
    from advisor import Advisor, SyncClient

PROFILE = "config.yaml"
TIME_MOST = 4.0  # times the expected time of the largest input, and the longest run: a queue believes a limit unread
AFTER_KILL = 1.25  # times the memory at which a run was killed: it needed more
MEMORY_MOST = 2.0  # times the largest memory that was seen; never below it, on any count of cores


@command(
    click.argument("components", nargs=-1),
    click.option("--to", "kind", type=click.Choice(list(WRITERS)), required=True, help="What reads the advice."),
    click.option("--cores", "cores_max", type=click.IntRange(1),
                 help="The most for one run; absent: the most that each was run on."),
    click.option("--allowed", type=options.ALLOWED, help="Counts that a run may get; absent: all of those."),
    click.option("--tolerance", default=0.05, show_default=True, help="Take the fewest cores this close to the fastest."),
    click.option("--level", default=0.99, show_default=True,
                 help="Share of runs that should keep within memory and time limit."),
    click.option("--out", type=options.PATH, help="File to write; of a Snakemake profile the directory."),
    options.learned,
)  # fmt: skip
def advise_command(
    components: tuple[str, ...], kind: str, cores_max: int | None, allowed: Any, tolerance: float, level: float,
    out: Path | None, **source: Any,
) -> Output:  # fmt: skip
    """Write cores, memory and time limits of COMPONENTS (absent: all) as settings that a workflow or batch system reads.

    Each is advised for the largest input that it was run with, on a core count that it was run on, or where none of these is
    allowed, on the allowed one nearest to the last. Memory is what is expected, but not below the largest that was seen, nor
    above twice that. A time limit is at most four times the expected time, and at most four times the longest run. The
    comment beside each names what was seen.
    """
    settings: list[AdvisedSetting] = []
    left_out: dict[str, str] = {}
    with asked(source) as advisor:
        for known in known_components(advisor, list(components) or True):
            found = _setting(advisor, known, cores_max, allowed, tolerance, level)
            if isinstance(found, str):
                left_out[known["component"]] = found
            else:
                settings.append(found)
    plain = {"to": kind, "settings": [each._asdict() for each in settings], "left_out": left_out}
    text = WRITERS[kind](settings, left_out)
    if out is None or options.wants_json():
        return Output(plain, [text.removesuffix("\n")])
    target = out / PROFILE if kind == "snakemake-profile" else out
    written(target, text.encode(), folder=True)
    return Output(plain, [f"{target}: {several(len(settings), 'component')}"])


def known_components(advisor: Advisor | SyncClient, components: bool | list[str]) -> Iterator[Mapping[str, Any]]:
    """Yield what status tells of components, page by page."""
    offset = 0
    while True:
        page = advisor.status(components=components, offset=offset, limit=STATUS_PAGE_MAX)["components"]
        yield from page
        offset += len(page)
        if len(page) < STATUS_PAGE_MAX:
            return


def _setting(
    advisor: Advisor | SyncClient, known: Mapping[str, Any], cores_max: int | None, allowed: Any, tolerance: float,
    level: float,
) -> AdvisedSetting | str:  # fmt: skip
    """Return what is advised for a component, or why nothing is."""
    name = known["component"]
    if known.get("predictors", 1) > 1:
        return "it has several predictors"
    if "predictor_range" not in known:
        return "no run was learned"
    least_x, x = known["predictor_range"]
    most = cores_max if cores_max or allowed is not None else max(1, int(known["cores_range"][1]))
    try:
        choice = advisor.choose_cores(
            name, predictor=x, cores_max=most, allowed=allowed, tolerance=tolerance, level=level, explore="freeze"
        )
        limits = limits_of(advisor, known, x, choice.cores, level)
    except NotEnoughData:
        return "too few runs were learned"
    largest = f" of the largest input ({x:g})" if x > least_x else ""
    why = (
        f"{several(choice.cores, 'core')}, {seconds(choice.elapsed_s)} expected{largest},"
        f" {choice.why.rpartition('; ')[2]}"
    )
    if choice.extrapolates > 0.0:
        why += ", beyond what was seen"
    why += f"; no run took over {seconds(known['elapsed_most_s'])}"
    if limits.peak_bytes is not None:
        why += f", none over {size(known['peak_most_bytes'])}"
        if "peak_killed_bytes" in known:
            why += f", one killed at {size(known['peak_killed_bytes'])}"
    return limits._replace(why=why)


def limits_of(
    advisor: Advisor | SyncClient, known: Mapping[str, Any], x: float, cores: int, level: float
) -> AdvisedSetting:
    """Return the time limit and the memory that a share `level` of runs keeps, as a batch system may believe them.

    A time limit is at most `TIME_MOST` times what is expected, and as many times what no run took longer than.
    """
    found = advisor.predict(known["component"], predictor=x, cores=cores, level=level)
    longest = known["elapsed_most_s"]
    limit_s = min(float(found.high_s), TIME_MOST * float(found.elapsed_s), TIME_MOST * longest)
    if known["cores_range"][0] == known["cores_range"][1] == cores:
        limit_s = max(limit_s, longest)
    return AdvisedSetting(known["component"], cores, limit_s, _memory(advisor, known, x, cores, level), "")


def _memory(
    advisor: Advisor | SyncClient, known: Mapping[str, Any], x: float, cores: int, level: float
) -> float | None:
    """Return the memory that a run of the largest input will hardly exceed; None where none was measured.

    The largest that was seen is of no larger an input: no more than `MEMORY_MOST` of it is explained by what was run.
    """
    if "peak_most_bytes" not in known:
        return None
    largest = known["peak_most_bytes"]
    expected = advisor.predict(known["component"], predictor=x, cores=cores, level=level, measure="peak_bytes")
    least = max(largest, AFTER_KILL * known.get("peak_killed_bytes", 0.0))
    return min(max(float(expected.high_s), least), MEMORY_MOST * least)
