"""`advisor profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from advisor.cli import options, show_profile

if TYPE_CHECKING:
    from advisor.profile.tree import Profile


@click.command("profile", cls=options.Command)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--depth", default=6, show_default=True, help="Levels of the tree to show; 0 shows all.")
@click.option("--least", default=0.001, show_default=True, help="Hide nodes with less than this share of the time.")
@click.option(
    "--window", "window_s", default=0.1, show_default=True, help="Seconds by which streams of threads may lie apart."
)
@options.as_json
def profile_command(files: tuple[Path, ...], depth: int, least: float, window_s: float, as_json: bool) -> None:
    """Show the profile of FILE: task events, or a profile in JSON; of several, set side by side what grows.

    Trees are those of paper 5: one for each task construct, one for each thread's implicit task, with stubs where tasks ran.
    """
    from advisor.files.profiles import read_profile
    from advisor.profile.profiler import Profiler

    found: list[tuple[str, Profile]] = []
    for path in files:
        found.append((path.name, read_profile(path, lambda: Profiler(window_ns=round(window_s * 1e9)))))
    show_profile.profiles(found, depth, least, as_json=as_json)
