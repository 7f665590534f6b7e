"""`advisor serve`: an option for each key of the service's configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli.options import Command
from advisor.service.config import SETTINGS, ConfigKey

# What few services need. The ten others come first, without a heading of their own.
GROUPS = {
    "More of where it listens, and for whom": ("socket_mode", "http_hosts", "tls_clients", "open_beyond_loopback"),
    "More of its state": ("accept_damage", "engine", "shards", "compiled", "log_level"),
    "More bounds": ("components_max", "connections_max", "stall_s", "heavy_deadline_s"),
    "Networks": ("advise", "snet_resources"),
}  # fmt: skip


def _option(key: str, setting: ConfigKey) -> click.Option:
    """Return the option of a key: named like it but for the unit, in the environment ADVISOR_ and the key in capitals."""
    option, default = setting.option, setting.default
    name = key.removesuffix("_s").replace("_", "-")
    shown = "" if default in (None, (), False) else f"  [default: {_default(default)}]"
    about = f"{setting.about[0].upper()}{setting.about[1:]}{'; repeatable' if setting.many else ''}.{shown}"
    flag = option.type is bool
    more: dict[str, Any] = {"is_flag": True} if flag else {"metavar": option.form, "multiple": setting.many}
    flags = f"--{name}/--no-{name}" if default is True else f"--{name}"
    return click.Option(
        [flags, key], type=option.type, default=None, help=about, envvar=f"ADVISOR_{key.upper()}", **more
    )


def _default(default: Any) -> str:
    return "on" if default is True else f"{default:,g}" if isinstance(default, (int, float)) else default


def serve_options(function: Any) -> Any:
    """Add the options of the table of keys."""
    # Decorators are applied from the last to the first, so click has them in reverse.
    function.__click_params__ = [_option(key, setting) for key, setting in SETTINGS.items()][::-1]
    return function


@click.command("serve", cls=Command, as_json=False, groups=GROUPS)
@click.option("--config", type=click.Path(path_type=Path), envvar="ADVISOR_CONFIG", help="TOML file with these keys.")
@serve_options
def serve_command(config: Path | None, **options: Any) -> None:
    """Run the service until SIGTERM or SIGINT: then it stops accepting, drains, commits and closes.

    Each option is a key of the TOML file too, --stall being stall_s, and a variable of the environment, ADVISOR_STALL_S.
    Options overrule the environment, the environment the file. Without --socket and --tcp the service listens where the
    other commands look for it: $XDG_RUNTIME_DIR/advisor/socket, for root /run/advisor/socket.
    """
    from advisor.client.address import default_socket
    from advisor.service import run
    from advisor.service.config import load_config

    given = {key: value for key, value in options.items() if value not in (None, ())}
    configured = load_config(config, socket_else=default_socket(), **given)
    if configured.sharded:
        from advisor.cluster.serving import serve

        run(configured, serve)
    else:
        run(configured)
