"""`advisor shards`."""

from __future__ import annotations

from typing import Any

import click

from advisor.cli import options
from advisor.cli.source import connected

MOVE_S = 3600.0  # that moving may take before the command gives up waiting: the service goes on


@click.command("shards", cls=options.Command)
@click.argument("shards", type=click.IntRange(1), required=False)
@options.service
@options.as_json
def shards_command(shards: int | None, as_json: bool, **source: Any) -> None:
    """Show the shards of a service on Ray, or let it have SHARDS of them, while rows come and go."""
    from advisor.cli.show import put_json, several
    from advisor.cli.show_status import put_shards

    with connected(source) as client:
        found = client.shards(shards, timeout_s=MOVE_S)
    if as_json:
        put_json(found)
        return
    if "moved" in found:
        moved = found["moved"]
        click.echo(
            f"{several(moved['shards'], 'shard')} now: {several(moved['moves'], 'move')}, {moved['bytes']:,} bytes"
        )
    put_shards(found["shards"], found["moves"])
