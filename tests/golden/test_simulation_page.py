"""docs/simulation.md: what its commands and its program print is what it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from advisor.cli import advisor
from advisor.simulation import POLICIES
from advisor.simulation.system_words import MODELS

PAGE = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")
SESSIONS = [
    (command, reported)
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    for command, reported in re.findall(r"^\$ advisor (.*?)\n((?:(?!\$ ).*\n)+)", block, re.MULTILINE)
]


def test_there_are_sessions() -> None:
    assert len(SESSIONS) >= 1


@pytest.mark.parametrize(("command", "reported"), SESSIONS)
def test_a_session_prints_what_the_page_shows(command: str, reported: str) -> None:
    result = CliRunner().invoke(advisor, command.split())
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == reported.splitlines()


def test_the_program_of_the_page_gives_what_its_comment_says() -> None:
    program = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
    expression, said = program.strip().rpartition("\n")[2].split("#")
    names: dict = {}
    exec(program.strip().rpartition("\n")[0], names)
    assert eval(expression, names) == float(said)


def test_the_page_has_every_policy_and_every_contention_model() -> None:
    reported = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(POLICIES) <= reported
    assert set(MODELS) <= reported
