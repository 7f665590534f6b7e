"""The page of commands names each command that exists, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from advisor.cli import COMMANDS

DOCS = Path(__file__).parents[2] / "docs"


def test_every_command_is_told_and_no_other() -> None:
    reported = set(re.findall(r"`advisor ([a-z-]+)", (DOCS / "commands.md").read_text(encoding="utf-8")))
    assert reported == set(COMMANDS)
