"""`advisor diff`: two states, and what became slower or faster between them."""

from __future__ import annotations

from pathlib import Path

import click

from advisor.cli import options, show
from advisor.cli.source import stored


@click.command("diff", cls=options.Command)
@click.argument("before", metavar="A", type=click.Path(path_type=Path))
@click.argument("after", metavar="B", type=click.Path(path_type=Path))
@click.option("--level", default=0.99, show_default=True, help="Confidence that a difference needs to be reported.")
@options.as_json
def diff_command(before: Path, after: Path, level: float, as_json: bool) -> None:
    """Compare states A and B, state files or exported ones: which components became slower or faster, and by how much.

    Where each was seen in both, B's time is divided by A's. What the measurements bear out comes first, the largest before the
    smaller. The exit status is 0 whatever was found.
    """
    from advisor.pictures.comparison import compare

    found = compare(stored(before, "A"), stored(after, "B"), level)
    show.differences(found, level=level, as_json=as_json)
