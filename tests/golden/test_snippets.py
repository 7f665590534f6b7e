"""The programs of docs/adapters.md that speak the protocol without a client: built as they stand, against a real service."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from live import PATIENCE_S, running

from advisor import Advisor, __version__

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"
STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-O2")


def tool(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"NO {names[0].upper()} HERE: its program on the page of adapters is not tested")
    return found


def block(language: str, path: Path) -> Path:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    path.write_text(text, encoding="utf-8")
    return path


async def printed(*command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        said, cried = await process.communicate()
    assert process.returncode == 0, cried.decode()
    return said.decode()


async def spoken(*command: str | Path, directory: Path) -> str:
    """Return what a program printed that was given the address of a service."""
    async with running(directory):
        return await printed(*command, directory / "s")


def choice() -> tuple[int, float]:
    advisor = Advisor()
    for cores in (1, 2, 4, 8):
        advisor.observe("blur", predictor=1000.0, cores=cores, elapsed_s=0.5 + 3.5 / cores)
    chosen = advisor.choose_cores("blur", predictor=1000.0, cores_max=8)
    return chosen.cores, chosen.elapsed_s


async def test_c(tmp_path: Path) -> None:
    compiler = tool("cc", "gcc")
    await printed(compiler, *STRICT, block("c", tmp_path / "ask.c"), "-o", tmp_path / "ask")
    answers = [json.loads(line) for line in (await spoken(tmp_path / "ask", directory=tmp_path)).splitlines()]
    assert [answer[:3] for answer in answers] == [[1, msgid, None] for msgid in (1, 2, 3)]
    hello, receipt, chosen = (answer[3] for answer in answers)
    assert (hello["version"], receipt["accepted"]) == (__version__, 4)
    assert (chosen["cores"], chosen["elapsed_s"]) == choice()


async def test_perl(tmp_path: Path) -> None:
    said = await spoken(tool("perl"), block("perl", tmp_path / "ask.pl"), directory=tmp_path)
    version, learned, chosen = said.splitlines()
    assert (version, learned) == (f"version {__version__}", "4 rows learned")
    cores, elapsed_s = re.fullmatch(r"(\d+) cores, (\S+) s", chosen).groups()  # type: ignore[union-attr]
    assert (int(cores), float(elapsed_s)) == choice()
