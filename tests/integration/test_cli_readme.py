"""The README's first session says what happens, and its commands are the ones that exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from advisor.cli import COMMANDS

README = Path(__file__).parents[2] / "README.md"


def test_the_session_is_true() -> None:
    tried = doctest.testfile(str(README), module_relative=False)
    assert tried.attempted >= 7
    assert tried.failed == 0


def test_every_command_is_told_and_no_other() -> None:
    told = set(re.findall(r"`advisor ([a-z-]+)", README.read_text(encoding="utf-8")))
    assert told == set(COMMANDS)
