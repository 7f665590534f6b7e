"""`advisor profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import live_profile, options, running, show_profile
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor.profile.tree import Profile


@click.command(
    "profile", cls=running.ProfileCommand, options_metavar="[OPTIONS] [FILE… | -- PROGRAM… | [--producer NAME]]"
)
@click.argument("files", nargs=-1, metavar="", type=click.Path(path_type=Path))
@click.option(
    "--depth", type=click.IntRange(min=0), default=6, show_default=True, help="Levels of the tree to show; 0 shows all."
)
@click.option(
    "--least",
    type=click.FloatRange(0.0, 1.0),
    default=0.001,
    show_default=True,
    help="Hide nodes with less than this share of the time.",
)
@click.option(
    "--window", "window_s", default=0.1, show_default=True, help="Seconds by which threads' streams lie apart."
)
@click.option(
    "--picture", type=click.Path(path_type=Path), help="Draw the profile: a .svg, or a .html to click into and search."
)
@click.option("--flame", is_flag=True, help="Draw roots below, as a flame graph, instead of above.")
@click.option("--trace", type=click.Path(path_type=Path), help="Write the events as a trace for Perfetto or Chrome.")
@click.option("--producer", help="Show the newest run of this producer of a service.")
@click.option("--record", type=click.Path(path_type=Path), help="Write a PROGRAM's events into this file; no service.")
@click.option(
    "--mode",
    type=click.Choice(running.MODES),
    help="Every event of a PROGRAM, or sums of most tasks; auto: where they are many. [default: auto; with --record full]",
)
@options.service
@options.as_json
@click.pass_context
def profile_command(
    ctx: click.Context, files: tuple[Path, ...], depth: int, least: float, window_s: float, picture: Path | None, flame: bool,
    trace: Path | None, producer: str | None, record: Path | None, mode: str | None, as_json: bool, **source: Any,
) -> None:  # fmt: skip
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
        live_profile.runs(source, as_json=as_json)
        return
    if files and any(source.values()):
        raise click.UsageError("no service is asked about files", ctx)
    if program and (source["tcp"] or source["token_file"]):
        raise click.UsageError("where a program sends its events is a --socket", ctx)
    if len(files) > 1 and (picture or trace):
        raise InvalidValue("files", len(files), "one, for a picture or a trace")
    if not 0.0 <= window_s <= 60.0:
        raise InvalidValue("window", window_s, "from 0 to 60 seconds")
    if trace and not files and not record:
        raise InvalidValue(
            "trace", str(trace), "given with --record, or with a file of events: a service does not keep them"
        )
    if record and (source["socket"] or not program):
        raise InvalidValue(
            "record", str(record), "given with a PROGRAM, whose events go into the file and to no --socket"
        )
    status = 0
    if producer is not None:
        found = [(producer, live_profile.profile_now(source, producer))]
    elif program and not record:
        profile, status = running.watched(program, source["socket"], mode, quiet=as_json)
        found = [(Path(program[0]).name, profile)]
    else:
        if record:
            status = running.recorded(program, record, mode, quiet=as_json)
            files = (record,)
        found = [(path.name, _read(path, window_s, trace)) for path in files]
    if picture:
        from advisor.pictures.icicle import draw_profile

        draw_profile(picture, *found[0], flame=flame)
    show_profile.profiles(found, depth, least, as_json=as_json)
    if status:
        ctx.exit(status)


def _read(path: Path, window_s: float, trace: Path | None) -> Profile:
    from advisor.files.profiles import read_profile
    from advisor.files.trace import TraceWriter
    from advisor.profile.profiler import Profiler

    window_ns = round(window_s * 1e9)

    def make() -> Profiler:
        return Profiler(window_ns=window_ns)

    if trace is None:
        return read_profile(path, make, cut=_cut)
    with TraceWriter(trace, window_ns) as writer:
        return read_profile(path, make, writer.write, cut=_cut)


def _cut(error: InvalidValue) -> None:
    """Say that the end of a file is missing: its writer was killed, or still writes."""
    click.echo(f"advisor profile: {error}; what comes before is shown", err=True)
