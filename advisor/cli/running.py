"""`advisor profile -- PROGRAM`: run a program under the OpenMP tool, its events into a file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from advisor.cli import options
from advisor.errors import InvalidValue

PROGRAM: Final = "program"  # where a command's context keeps it
MODES: Final = ("auto", "full", "sums")
# Records of a thread that wait for the disk: 128 MiB, taken as they are used. A file shall hold every event.
HELD_S: Final = 0.01  # a wait that is worth a line: less than the start of a program takes
RECORDED_BUFFER: Final = 2**22


class ProfileCommand(options.Command):
    """A command whose arguments after ``--`` are a program and its arguments."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what stands behind ``--``, then parse as ever."""
        if "--" in args:
            cut = args.index("--")
            ctx.meta[PROGRAM] = args[cut + 1 :]
            if not args[cut + 1 :]:
                raise click.UsageError("no program after --", ctx)
            args = args[:cut]
        return super().parse_args(ctx, args)


def program_of(ctx: click.Context) -> Sequence[str]:
    """Return the program and its arguments; empty where none was given."""
    return ctx.meta.get(PROGRAM, ())


def recorded(program: Sequence[str], path: Path, mode: str, *, quiet: bool) -> int:
    """Run a program under the tool, its events into a file; return its exit status.

    Raises AdvisorError where the tool cannot be built, the program not be started, or nothing came of it.

    `mode`: one of `MODES`. `quiet`: keep standard output free: what the program prints goes to standard error.
    """
    _check_program(program)
    from advisor.adapters.openmp import tool_library

    with tempfile.TemporaryDirectory(prefix="advisor-") as folder:
        report = Path(folder, "report")
        environment = {
            "OMP_TOOL": "enabled",
            "OMP_TOOL_LIBRARIES": str(tool_library()),
            "ADVISOR_OPENMP_MODE": mode,
            "ADVISOR_OPENMP_REPORT": str(report),
            "ADVISOR_OPENMP_FILE": str(path.absolute()),
        }
        if "ADVISOR_OPENMP_BUFFER" not in os.environ and mode == "full":
            environment["ADVISOR_OPENMP_BUFFER"] = str(RECORDED_BUFFER)
        path.unlink(missing_ok=True)  # a file of an earlier run is not taken for this one's
        status = _run(program, environment, quiet=quiet)
        held_s = json.loads(report.read_bytes()).get("held_ns", 0) / 1e9 if report.exists() else 0.0
    if not path.exists():
        why = f"it ended with status {status}" if status else "does it use OpenMP, of LLVM's libomp?"
        bound = f"one that runs tasks of OpenMP: nothing came of it; {why}"
        raise InvalidValue("program", Path(program[0]).name, bound)
    if held_s >= HELD_S:
        print(
            f"advisor: threads waited {held_s:.2g} s until their events were written, which the profile shows as time of"
            f" tasks; set ADVISOR_OPENMP_BUFFER above {environment.get('ADVISOR_OPENMP_BUFFER', RECORDED_BUFFER)},"
            " or create fewer tasks",
            file=sys.stderr,
        )
    return status


def _run(program: Sequence[str], environment: Mapping[str, str], *, quiet: bool) -> int:
    sys.stdout.flush()
    try:
        process = subprocess.Popen(  # noqa: S603
            program, env={**os.environ, **environment}, stdout=sys.stderr.fileno() if quiet else None
        )
    except (OSError, ValueError) as error:
        raise InvalidValue("program", program[0], f"one that can be started ({error})") from error
    while True:
        try:
            status = process.wait()
        except KeyboardInterrupt:
            continue  # the program was interrupted as well; it says when it ends
        return status if status >= 0 else 128 - status  # as a shell reports a signal


def _check_program(program: Sequence[str]) -> None:
    """Refuse a program that is not there, or linked with GCC's libgomp, which loads no tool, unless libomp takes its place.

    Raises
    ------
    InvalidValue
    """
    path = shutil.which(program[0])
    if path is None:
        raise InvalidValue("program", program[0], "one that can be started", "no such file, or it may not be executed")
    data = Path(path).read_bytes()
    of_gomp = data[:4] == b"\x7fELF" and b"libgomp.so" in data and b"libomp.so" not in data
    if of_gomp and "libomp" not in os.environ.get("LD_PRELOAD", ""):
        raise InvalidValue(
            "program", program[0], "linked with LLVM's libomp: it uses GCC's libgomp, which loads no tool",
            "build it with clang -fopenmp; or link GCC's objects by clang -fopenmp; or without building set"
            " LD_PRELOAD=libomp.so.5, which takes libgomp's place",
        )  # fmt: skip
