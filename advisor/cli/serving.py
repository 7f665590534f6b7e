"""`advisor serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from advisor.cli.options import Command


@click.command("serve", cls=Command)
@click.option("--socket", type=click.Path(path_type=Path), help="Listen on this Unix socket, made with mode 0600.")
@click.option("--tcp", metavar="HOST:PORT", help="Listen on this TCP address; beyond loopback with a token and TLS.")
@click.option("--http", metavar="HOST:PORT", help="Answer /metrics, /healthz and /readyz here.")
@click.option("--state", type=click.Path(path_type=Path), help="State file; without one nothing survives the service.")
@click.option("--token-file", type=click.Path(path_type=Path), help="File with the secret that TCP clients must give.")
@click.option("--tls-certificate", type=click.Path(path_type=Path), help="PEM file with the certificate chain.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="PEM file with the private key.")
@click.option("--timer-noise", "timer_noise_s", type=float, help="Seconds by which the timers that measure are off.")
@click.option(
    "--model-memory", metavar="SIZE", help="Memory for support points, e.g. 64MiB; more components share less."
)
@click.option(
    "--snet-resources",
    metavar="[HOST:]PORT[=NETWORK[*WORTH]]",
    multiple=True,
    help="Lend cores here to applications of S-Net's runtime that run NETWORK, an id of define_network; repeatable.",
)
@click.option(
    "--snet-cores", metavar="CPUS", help="Processors to lend there, like 0-3,6; by default those of the service."
)
@click.option(
    "--snet-beyond-loopback",
    is_flag=True,
    default=None,
    help="Let that protocol, which knows no token, be reached from afar.",
)
@click.option("--accept-damage", is_flag=True, default=None, help="Start without what is damaged in the state file.")
@click.option("--config", type=click.Path(path_type=Path), help="TOML file with these and further keys.")
def serve_command(config: Path | None, **options: Any) -> None:
    """Run the service until SIGTERM or SIGINT: then it stops accepting, drains, commits and closes.

    Options overrule the configuration file.
    """
    from advisor.service import run
    from advisor.service.config import load_config

    options["snet_resources"] = options["snet_resources"] or None
    run(load_config(config, **options))
