"""`advisor profile`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, running, show_profile
from advisor.cli.options import Output, command
from advisor.cli.source import connected
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor.profile.tree import Profile

MODE = "Every event of a PROGRAM, or sums of most tasks; auto: where they are many. [default: auto; with --record full]"


@command(
    click.argument("files", nargs=-1, metavar="", type=options.PATH),
    click.option("--depth", type=click.IntRange(min=0), default=6, show_default=True,
                 help="Levels of the tree to show; 0 shows all."),
    click.option("--least", type=click.FloatRange(0.0, 1.0), default=0.001, show_default=True,
                 help="Hide nodes with less than this share of the time."),
    click.option("--window", "window_s", default=0.1, show_default=True, help="Seconds by which threads' streams lie apart."),
    click.option("--picture", type=options.PATH, help="Draw the profile: a .html to click into and search."),
    click.option("--flame", is_flag=True, help="Draw roots below, as a flame graph, instead of above."),
    click.option("--producer", help="Show the newest run of this producer of a service."),
    click.option("--record", type=options.PATH, help="Write a PROGRAM's events into this file; no service."),
    click.option("--mode", type=click.Choice(running.MODES), help=MODE),
    options.service,
    click.pass_context,
    cls=running.ProfileCommand, options_metavar="[OPTIONS] [FILE… | -- PROGRAM… | [--producer NAME]]",
)  # fmt: skip
def profile_command(
    ctx: click.Context, files: tuple[Path, ...], depth: int, least: float, window_s: float, picture: Path | None, flame: bool,
    producer: str | None, record: Path | None, mode: str | None, **source: Any,
) -> Output:  # fmt: skip
    """Show the profile of FILE: task events, or a profile in JSON; of several, set side by side what grows.

    Without FILE and PROGRAM shows which runs a service has, with --producer what it knows of one by now.

    Behind -- runs a PROGRAM of OpenMP tasks, its events to the service at --socket or ADVISOR_SOCKET, else to one started for
    it, or with --record into a file; its status is the command's.

    Trees are those of paper 5: one for each task construct, one for each thread's implicit task, with stubs where tasks ran.
    """
    program = running.program_of(ctx)
    if bool(files) + bool(program) + (producer is not None) > 1:
        raise click.UsageError("give files, or -- and a program with its arguments, or --producer of a service", ctx)
    if not files and not program and producer is None:
        return _runs(source)
    if files and any(source.values()):
        raise click.UsageError("no service is asked about files", ctx)
    if program and (source["tcp"] or source["token_file"]):
        raise click.UsageError("where a program sends its events is a --socket", ctx)
    if len(files) > 1 and picture:
        raise InvalidValue("files", len(files), "one, for a picture")
    if not 0.0 <= window_s <= 60.0:
        raise InvalidValue("window", window_s, "from 0 to 60 seconds")
    if record and (source["socket"] or not program):
        raise InvalidValue(
            "record", str(record), "given with a PROGRAM, whose events go into the file and to no --socket"
        )
    status, quiet = 0, options.wants_json()
    if producer is not None:
        found = [(producer, _now(source, producer))]
    elif program and not record:
        profile, status = running.watched(program, source["socket"], mode, quiet=quiet)
        found = [(Path(program[0]).name, profile)]
    else:
        if record:
            status = running.recorded(program, record, mode, quiet=quiet)
            files = (record,)
        found = [(path.name, _read(path, window_s)) for path in files]
    if picture:
        from advisor.pictures.profile_page import draw_profile

        draw_profile(picture, *found[0], flame=flame)
    return _answer(found, depth, least, status)


def _answer(found: list[tuple[str, Profile]], depth: int, least: float, status: int) -> Output:
    """Return one profile, its measures and what is wrong with it; several side by side."""
    from advisor.profile.comparison import compare
    from advisor.profile.diagnosis import diagnose

    findings = [diagnose(profile) for _, profile in found]
    plain: dict[str, Any] = {"profiles": [
        {"name": name, "profile": profile.as_dict(), "diagnosis": [each.as_dict() for each in reported]}
        for (name, profile), reported in zip(found, findings, strict=True)
    ]} if options.wants_json() else {}  # fmt: skip
    if len(found) == 1:
        return Output(plain, show_profile.one(found[0][1], findings[0], depth, least), status)
    beside = compare(found)
    return Output(plain | {"comparison": beside.as_dict()}, show_profile.several_profiles(beside), status)


def _runs(source: Mapping[str, Any]) -> Output:
    """Return the runs whose profile a service keeps, the one that sent last first."""
    with connected(source) as client:
        found = [run | {"incarnation": run["incarnation"].hex()} for run in client.profile()["runs"]]
    return Output({"runs": found}, show_profile.runs(found))


def _now(source: Mapping[str, Any], producer: str) -> Profile:
    """Return the profile of a producer's newest run, up to the last event that the service has."""
    from advisor.profile.tree import Profile

    with connected(source) as client:
        return Profile.from_dict(client.profile(producer, ended=True, diagnosis=False)["profile"])


def _read(path: Path, window_s: float) -> Profile:
    from advisor.files.profiles import read_profile
    from advisor.profile.profiler import Profiler

    return read_profile(path, lambda: Profiler(window_ns=round(window_s * 1e9)), cut=_cut)


def _cut(error: InvalidValue) -> None:
    """Say that the end of a file is missing: its writer was killed, or still writes."""
    click.echo(f"advisor profile: {error}; what comes before is shown", err=True)
