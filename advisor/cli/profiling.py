"""`advisor profile`."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from advisor.cli import options, running, show_profile
from advisor.cli.options import Output, command
from advisor.cli.source import connected, written
from advisor.errors import InvalidValue

if TYPE_CHECKING:
    from advisor.profile.tree import Profile

MODE = "Every event of a PROGRAM, or sums of most tasks; auto: where they are many. [default: auto; with --record full]"


@command(
    click.argument("file", required=False, metavar="", type=options.PATH),
    click.option("--depth", type=click.IntRange(min=0), default=6, show_default=True,
                 help="Levels of the tree to show; 0 shows all."),
    click.option("--least", type=click.FloatRange(0.0, 1.0), default=0.001, show_default=True,
                 help="Hide nodes with less than this share of the time."),
    click.option("--stacks", type=options.PATH,
                 help="Write call paths with their own time as collapsed stacks, for speedscope or flamegraph.pl."),
    click.option("--producer", help="Show the newest run of this producer of a service."),
    click.option("--record", type=options.PATH, help="Write a PROGRAM's events into this file; no service."),
    click.option("--mode", type=click.Choice(running.MODES), help=MODE),
    options.service,
    click.pass_context,
    cls=running.ProfileCommand, options_metavar="[OPTIONS] [FILE | -- PROGRAM… | [--producer NAME]]",
)  # fmt: skip
def profile_command(
    ctx: click.Context, file: Path | None, depth: int, least: float, stacks: Path | None, producer: str | None,
    record: Path | None, mode: str | None, **source: Any,
) -> Output:  # fmt: skip
    """Show the profile of FILE, a file of task events.

    Without FILE and PROGRAM it lists the runs of a service; --producer shows the newest run of one.

    Behind -- runs a PROGRAM of OpenMP tasks, its events into a file, which --record keeps; its status is the command's.

    Trees are those of paper 5: one for each task construct, one for each thread's implicit task, with stubs where tasks ran.
    """
    program = running.program_of(ctx)
    if bool(file) + bool(program) + (producer is not None) > 1:
        raise click.UsageError("give a file, or -- and a program with its arguments, or --producer of a service", ctx)
    if (file or program) and any(source.values()):
        raise click.UsageError("no service is asked about a file or a program", ctx)
    if record and not program:
        raise InvalidValue("record", str(record), "given with a PROGRAM, whose events go into the file")
    if not file and not program and producer is None:
        return _runs(source)
    status, quiet = 0, options.wants_json()
    if producer is not None:
        name, profile = producer, _now(source, producer)
    else:
        from advisor.files.profiles import read_profile

        with tempfile.TemporaryDirectory(prefix="advisor-") as made:
            path = file or record or Path(made, Path(program[0]).name)
            if program:
                status = running.recorded(program, path, mode or ("full" if record else "auto"), quiet=quiet)
            name, profile = path.name, read_profile(path, cut=_cut)
    if stacks:
        from advisor.files.profiles import collapsed_stacks

        written(stacks, collapsed_stacks(profile).encode(), "stacks")
    from advisor.profile.diagnosis import diagnose

    findings = diagnose(profile)
    plain = {"name": name, "profile": profile.as_dict(), "diagnosis": [each.as_dict() for each in findings]}
    return Output(plain, show_profile.one(profile, findings, depth, least), status)


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


def _cut(error: InvalidValue) -> None:
    """Say that the end of a file is missing: its writer was killed, or still writes."""
    click.echo(f"advisor profile: {error}; what comes before is shown", err=True)
