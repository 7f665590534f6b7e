"""The command `advisor`: arguments only. What a command does lives in the rooms below, loaded when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from advisor import __version__
from advisor.cli.options import EXIT_CALLER, EXIT_FAILED

__all__ = ["main"]

EXIT_INTERRUPTED = 130  # as a shell reports SIGINT

# Each command, the module that holds it and what it does: --help needs no module, and loads none.
COMMANDS = {
    "serve": ("advisor.cli.serving", "Run the service on a Unix or TCP socket."),
    "demo": ("advisor.cli.demonstration", "Show the main job, measured on this machine, in under a minute."),
    "replay": ("advisor.cli.replaying", "Stream a table through a fresh advisor and print how well it predicts."),
    "learn": ("advisor.cli.learning", "Learn runs from a runtime's own files."),
    "predict": ("advisor.cli.asking", "Predict the elapsed time of a component."),
    "choose-cores": ("advisor.cli.asking", "Choose the cores for one invocation of a component."),
    "choose-together": ("advisor.cli.asking", "Choose the cores of jobs that share one pool."),
    "suggest": ("advisor.cli.asking", "Suggest which run of a component would teach most."),
    "advise": ("advisor.cli.advising", "Write what was learned as settings for Snakemake, Nextflow or Slurm."),
    "slurm": ("advisor.cli.slurm_loop", "Learn Slurm's jobs as they end; write advice for its job_submit plugin."),
    "allocate": ("advisor.cli.allocating", "Allocate cores to the components of an S-Net network."),
    "allocate-together": ("advisor.cli.allocating", "Allocate the cores of one machine to several networks."),
    "watch": ("advisor.cli.allocating", "Watch a network: report when a better allocation is worth the change."),
    "explain": ("advisor.cli.explaining", "Explain an answer in sentences; compute it again from its evidence."),
    "network": ("advisor.cli.network", "Check a network in S-Net or JSON and show what was read."),
    "simulate": ("advisor.cli.simulating", "Compute what executing a task graph would take, without running it."),
    "status": ("advisor.cli.asking", "Show totals and what is known of the components."),
    "shards": ("advisor.cli.service_changes", "Show the shards of a service on Ray, or have another number of them."),
    "report": ("advisor.cli.states", "Write what was learned as one HTML file: curves, coverage, advice."),
    "forget": ("advisor.cli.service_changes", "Weaken or drop what a service has learned of a component."),
    "set-allowed": ("advisor.cli.service_changes", "Set the core counts that a component allows."),
    "pin": ("advisor.cli.service_changes", "Pin a component to one model, or let the evidence choose again."),
    "profile": ("advisor.cli.profiling", "Show where the time of a run of tasks went, and what to do."),
    "observe-run": ("advisor.cli.service_changes", "Teach a service a run of a whole task-parallel program."),
    "predict-run": ("advisor.cli.asking", "Predict a run of a program: larger inputs, more workers."),
    "export": ("advisor.cli.states", "Write what was learned to a file."),
    "import": ("advisor.cli.states", "Start a new state file from an exported one."),
}
MAIN = ("serve", "predict", "choose-cores", "allocate", "status")  # what --help shows first


class Commands(click.Group):
    """The commands of the table above, each loaded when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, loading its module."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(COMMANDS[cmd_name][0]), f"{cmd_name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; the error of an unknown one names the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from advisor.errors import nearest

            hint = nearest(args[0], COMMANDS)
            ctx.fail(f"No such command {args[0]!r}{hint and f': {hint}'}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands' section of --help from the table."""
        for title, names in (("Commands", MAIN), ("More commands", [name for name in COMMANDS if name not in MAIN])):
            with formatter.section(title):
                formatter.write_dl([(name, COMMANDS[name][1]) for name in names])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 the service or its state failed, 2 the command is at fault.",
)
@click.version_option(__version__, "--version", "-V", message="%(prog)s %(version)s")
def advisor() -> None:
    """Learn run times from a stream; answer how many cores to give to what.

    COMMAND --help tells more; with --json a command prints JSON, and nothing else, to standard output.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and exit: every failure is one line on standard error, never a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # With standalone_mode off, click returns the status of ctx.exit instead of exiting.
        status = advisor.main(given, prog_name="advisor", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        status = EXIT_CALLER
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "advisor"
        print(f"{where}: {' '.join(error.format_message().split())} (see {where} --help)", file=sys.stderr)
        status = EXIT_CALLER
    except (click.Abort, KeyboardInterrupt):
        status = EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = EXIT_FAILED
    sys.exit(status if isinstance(status, int) else 0)
