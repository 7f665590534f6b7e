"""Every block of README and pages runs as a reader runs it: page by page, from the top, on a machine with nothing on it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name

import pytest
from click.testing import CliRunner

from advisor.cli import COMMANDS, advisor
from advisor.service import SETTINGS
from advisor.simulation import POLICIES
from advisor.simulation.system_words import MODELS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "operations").glob("*.md")),
]
PAGES += sorted((ROOT / "adapters").glob("*/README.md"))
FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PATIENCE_S = 300  # what hangs ends; a busy machine takes a tenth

# What is no command for a shell, by the test that holds it.
HELD = {
    "yaml": "tests/unit/service/test_advising.py",
    "toml": "tests/unit/service/test_access.py",
    "c": "tests/golden/test_snippets.py",
}
# Blocks by a line of theirs, and what holds them: most set machines up, and no test can run all tests.
ELSEWHERE = {
    "pip install": ".ci/run",
    ".venv/bin/": ".ci/run",
    "--engine ray": "tests/unit/cli/test_serving.py",
    "apt-get": "tests/integration/test_openmp_service.py",
    "advisor slurm": "tests/unit/cli/test_slurm_loop.py",
    "OMP_TOOL_LIBRARIES": "tests/integration/test_openmp_service.py",
    "-- ./": "tests/integration/test_openmp_service.py",
}


@dataclass(frozen=True)
class Block:
    page: Path
    language: str
    text: str

    @property
    def slow(self) -> bool:  # a cluster of Dask's in one process needs 10 s of a quiet machine
        return "LocalCluster" in self.text

    @property
    def elsewhere(self) -> str | None:
        return next((by for line, by in ELSEWHERE.items() if line in self.text), HELD.get(self.language))


def blocks(page: Path) -> list[Block]:
    return [Block(page, language, text) for language, text in FENCE.findall(page.read_text(encoding="utf-8"))]


class Service:
    """A service that runs, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.said, self.serves = process, "", threading.Event()
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self) -> None:
        for line in self.process.stderr or ():
            self.said += line
            if '"serving"' in line:
                self.serves.set()
        self.serves.set()

    def close(self) -> None:
        self.process.kill()
        self.listener.join()
        if self.process.stderr:
            self.process.stderr.close()
        self.process.wait()


@dataclass
class Machine:
    """A folder to work in, a home with nothing in it, and the commands `advisor` and `python3`."""

    home: Path
    service: Service | None = None

    def __post_init__(self) -> None:
        for folder in ("bin", "work", "run", "cache"):
            (self.home / folder).mkdir()
        for name, words in (("advisor", "-m advisor.cli"), ("python3", "")):
            (self.home / "bin" / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (self.home / "bin" / name).chmod(0o700)

    @property
    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("ADVISOR_")} | {
            "ADVISOR_KERNELS": os.environ["ADVISOR_KERNELS"],
            "PATH": f"{self.home / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.home / "run"), "XDG_CACHE_HOME": str(self.home / "cache"),
        }  # fmt: skip

    def run(self, block: Block) -> str:
        """Run a block and return what it printed. A service that it starts goes on beside it."""
        text = block.text.replace("/run/advisor", f"{self.home}/run/advisor").replace("/var/lib", f"{self.home}/var")
        text = text.replace("127.0.0.1:9117", "127.0.0.1:0")  # whichever port is free
        if block.language == "python":
            call = ["-m", "doctest", "block.txt"] if text.startswith(">>>") else ["-c", text]
            (self.home / "work" / "block.txt").write_text(text)
            return self.call([sys.executable, "-W", "error", *call])
        if block.language == "console":
            text = "".join(line[2:] + "\n" for line in text.splitlines() if line.startswith("$ "))
        here = re.split(r"^(advisor serve .*)\n", text, flags=re.MULTILINE)
        return "".join(self.serve(part) if number % 2 else self.shell(part) for number, part in enumerate(here))

    def shell(self, text: str) -> str:
        return self.call(["sh", "-e", "-c", text]) if text.strip() else ""

    def call(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self.home / "work", env=self.environment,
            capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command[-1]}\n{done.stdout}{done.stderr}"
        return done.stdout

    def serve(self, line: str) -> str:
        self.stop()
        process = subprocess.Popen(
            shlex.split(line, comments=True), cwd=self.home / "work", env=self.environment, stderr=subprocess.PIPE,
            text=True, executable=self.home / "bin" / "advisor",
        )  # fmt: skip
        self.service = Service(process)
        assert self.service.serves.wait(PATIENCE_S), line
        assert process.poll() is None, f"{line}\n{self.service.said}"
        return ""

    def stop(self) -> None:
        if self.service is not None:
            service, self.service = self.service, None
            service.process.terminate()
            assert service.process.wait(PATIENCE_S) == 0, service.said
            service.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    home = Path(tempfile.mkdtemp(prefix="adv"))  # short: a socket's path has 108 bytes at most
    made = Machine(home)
    try:
        yield made
        made.stop()
    finally:
        if made.service is not None:
            made.service.close()
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_runs_from_the_top(page: Path, machine: Machine) -> None:
    for block in blocks(page):
        assert block.language, f"a block of {page.name} names no language: {block.text}"
        if block.elsewhere:
            assert (ROOT / block.elsewhere).exists()
        elif not block.slow:
            printed, shown = machine.run(block), re.sub(r"^\$ .*\n", "", block.text, flags=re.MULTILINE)
            if block.language == "console" and shown:
                assert [line.rstrip() for line in printed.splitlines()] == shown.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("block", [block for page in PAGES for block in blocks(page) if block.slow], ids=str)
def test_a_slow_block_runs(block: Block, machine: Machine) -> None:
    machine.run(block)


def test_the_site_has_every_page_and_its_reference_names_what_is_there() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    reported = set(re.findall(r"[\w/-]+\.md", nav))
    assert reported == {str(page.relative_to(ROOT / "docs")) for page in PAGES if "docs" in page.parts} | {"index.md"}
    reference = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name in re.findall(r"^::: (\S+)$", reference, re.MULTILINE):
        assert resolve_name(name).__doc__, name


def test_links_lead_somewhere() -> None:
    for page in [*PAGES, *sorted((ROOT / "docs" / "decisions").glob("*.md"))]:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


# -- docs/simulation.md prints what it says ---------------------------------------------------------------------------------


SIMULATION = (Path(__file__).parents[2] / "docs" / "simulation.md").read_text(encoding="utf-8")
SESSIONS = [
    (command, reported)
    for block in re.findall(r"```console\n(.*?)```", SIMULATION, re.DOTALL)
    for command, reported in re.findall(r"^\$ advisor (.*?)\n((?:(?!\$ ).*\n)+)", block, re.MULTILINE)
]


def test_there_are_sessions() -> None:
    assert len(SESSIONS) >= 1


@pytest.mark.parametrize(("command", "reported"), SESSIONS)
def test_a_session_prints_what_the_page_shows(
    command: str, reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in re.findall(r"cat > (\S+) <<END\n(.*?)END\n", SIMULATION, re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    result = CliRunner().invoke(advisor, command.split())
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == reported.splitlines()


def test_the_program_of_the_page_gives_what_its_comment_says() -> None:
    program = re.search(r"```python\n(.*?)```", SIMULATION, re.DOTALL)[1]
    expression, said = program.strip().rpartition("\n")[2].split("#")
    names: dict = {}
    exec(program.strip().rpartition("\n")[0], names)
    assert eval(expression, names) == float(said)


def test_the_page_has_every_policy_and_every_contention_model() -> None:
    reported = set(re.findall(r"`([a-z_]+)`", SIMULATION))
    assert set(POLICIES) <= reported
    assert set(MODELS) <= reported


# -- docs/commands.md -------------------------------------------------------------------------------------------------------


DOCS = ROOT / "docs"


def test_every_command_is_told_and_no_other() -> None:
    reported = set(re.findall(r"`advisor ([a-z-]+)", (DOCS / "commands.md").read_text(encoding="utf-8")))
    assert reported == set(COMMANDS)


# -- docs/architecture.md names functions behind their file -----------------------------------------------------------------


NAMED = re.compile(r"`([\w/]+\.py)`:((?:\s*`[\w.]+`,?(?: and)?)+)")


def test_what_the_page_names_stands_in_the_file_it_names() -> None:
    found, lost = 0, list[str]()
    for file, names in NAMED.findall((ROOT / "docs/architecture.md").read_text()):
        source = (ROOT / "advisor" / file).read_text()
        for name in re.findall(r"`([\w.]+)`", names):
            found += 1
            last = re.escape(name.rpartition(".")[2])
            if not re.search(rf"^\s*(?:(?:async )?def|class) {last}\b|^\s*{last}\b.*=", source, re.MULTILINE):
                lost.append(f"{file}: {name}")
    assert not lost
    assert found > 60, found


def test_every_file_that_the_recipes_name_is_there() -> None:
    named = set(
        re.findall(r"`([\w/]+\.(?:py|json|jsonl|txt|md))`", (DOCS / "contributing.md").read_text(encoding="utf-8"))
    )
    folders = (ROOT, ROOT / "advisor", ROOT / "tests/behaviour")
    assert not sorted(
        name for name in named if "NAME" not in name and not any((folder / name).exists() for folder in folders)
    )
    assert len(named) > 30


# -- docs/operations.md has what the configuration has ----------------------------------------------------------------------


OPERATIONS = (DOCS / "operations.md").read_text(encoding="utf-8")


def test_every_key_is_on_the_page_and_none_else() -> None:
    table = OPERATIONS.partition("## Configuration")[2].partition("## Watching it")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(key for row in rows for key in re.findall(r"`(\w+)`", row)) == sorted(SETTINGS)


def test_every_metric_on_the_page_is_exported() -> None:
    source = "".join(file.read_text() for file in (ROOT / "advisor" / "service").glob("*.py"))
    for metric in set(re.findall(r"`(advisor_\w+?)(?:_total|_info)?(?:\{[\w,]+\})?`", OPERATIONS)):
        assert re.search(f'"{metric}(_total)?"', source), metric
