"""The OpenMP tool and a service: everything arrives, and a program is unharmed where there is none, or it dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from omp_programs import MISSING, RUN_S, Programs, Ran, records_of_the_program
from service_process import serving

import advisor.adapters.openmp
from advisor.adapters.openmp import tool_library
from advisor.client import SyncClient
from advisor.errors import InvalidValue

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

PAUSES = ("pauses", 12, 3)
PRODUCER = "pauses"


@contextmanager
def service(folder: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A service that compiles nothing: the first seconds of a run of numba are not what is looked at here."""
    config = folder / "config.toml"
    config.write_text("compiled = false\n")
    with serving(folder, "--config", config) as (socket, process):
        yield socket, process


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The socket of a service that nobody kills."""
    with service(tmp_path_factory.mktemp("service")) as (socket, _):
        yield socket


def measures(socket: Path, producer: str) -> dict[str, Any]:
    with SyncClient(str(socket)) as client:
        return dict(client.profile(producer, nodes=False, diagnosis=False))


def await_run(socket: Path) -> None:
    """Wait until the first batch of the run has arrived."""
    deadline = time.monotonic() + RUN_S
    while time.monotonic() < deadline:
        try:
            measures(socket, PRODUCER)
        except InvalidValue:
            continue  # the service has not heard of the run yet
        return
    pytest.fail("nothing came")


@contextmanager
def paused(programs: Programs, folder: Path, socket: Path) -> Iterator[subprocess.Popen[str]]:
    """The program that stops half way until it reads a line."""
    name, *arguments = PAUSES
    environment = programs.environment(folder, 2, socket=socket) | {"ADVISOR_PRODUCER": PRODUCER}
    command = [str(programs.path(name)), *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "half\n"
            yield process
        finally:
            process.kill()


def go_on(process: subprocess.Popen[str], folder: Path) -> Ran:
    output, errors = process.communicate("\n", timeout=RUN_S)
    return Ran(process.returncode, output, errors, folder)


@pytest.mark.parametrize("mode", ["full", "sums"])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_arrives_whole_with_its_end(programs: Programs, shared: Path, threads: int, mode: str) -> None:
    ran = programs.run("nqueens", 7, threads=threads, mode=mode, socket=shared)
    report, answer = ran.report(), measures(shared, "nqueens")
    assert (report["unsent"], report["dropped"], report["restarts"], report["ended"]) == (0, 0, 0, True)
    reported = answer["measures"]
    assert (reported["creates"], reported["begins"], reported["ends"]) == (ran.tasks, ran.tasks, ran.tasks)
    assert reported["cpu_s"] > 0.0
    assert reported["workers"] == 0  # all have stopped, and nothing waits for more
    assert answer["incarnation"].hex() == report["incarnation"]


def test_a_program_is_unharmed_where_there_is_no_service(programs: Programs, tmp_path: Path) -> None:
    free = programs.run("fib", 14, tool=False)
    ran = programs.run("fib", 14, socket=tmp_path / "nobody")
    assert (ran.status, ran.tasks, ran.errors) == (0, free.tasks, free.errors)
    report = ran.report()
    assert (report["sent"], report["ended"]) == (0, False)
    assert records_of_the_program(report) == report["unsent"]  # what nobody took is told
    unset = programs.run("fib", 14, socket="")
    assert (unset.status, unset.tasks) == (0, free.tasks)
    assert "ADVISOR_SOCKET is not set" in unset.errors


def test_a_program_is_unharmed_when_the_service_is_killed(programs: Programs, tmp_path: Path) -> None:
    with service(tmp_path) as (socket, process), paused(programs, tmp_path, socket) as program:
        await_run(socket)
        process.kill()
        process.wait()
        ran = go_on(program, tmp_path)
    assert (ran.status, ran.errors) == (0, "")
    report = ran.report()
    assert report["tasks"] == ran.tasks
    assert report["sent"] > 0
    assert report["unsent"] > 0
    assert report["ended"] is False


def test_a_run_goes_on_at_a_service_that_has_lost_it(programs: Programs, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    with ExitStack() as stack:
        with service(tmp_path) as (socket, process):
            program = stack.enter_context(paused(programs, tmp_path, socket))
            await_run(socket)
            process.kill()
            process.wait()
        (again / "config.toml").write_text("compiled = false\n")
        socket.unlink(missing_ok=True)
        socket.symlink_to(again / "socket")
        with service(again) as (new, _):
            ran = go_on(program, tmp_path)
            report, answer = ran.report(), measures(new, PRODUCER)
    assert (ran.status, report["restarts"], report["unsent"], report["ended"]) == (0, 1, 0, True)
    assert answer["incarnation"].hex() == report["incarnation"]
    assert 0 < answer["measures"]["creates"] < ran.tasks  # the second half; the first was with the one that died


def advise(*arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "advisor.cli", "profile", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **settings}
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False, env=environment)


@pytest.fixture
def built(programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command builds its tool into a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return programs.path("nqueens")


def test_the_command_prints_json_and_ends_as_the_program_does(built: Path) -> None:
    done = advise("--mode", "full", "--json", "--", built, "7")
    assert done.returncode == 0, done.stderr
    assert "tasks=" in done.stderr  # standard output is the answer's
    found = json.loads(done.stdout)
    assert found["profile"]["measures"]["ends"] > 0
    failing = advise("--", "sh", "-c", f"'{built}' 6 && exit 7")
    assert failing.returncode == 7
    assert "solve+0x" in failing.stdout


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_program_on_libgomp_is_refused_before_it_runs(tmp_path: Path) -> None:
    source, program = tmp_path / "p.c", tmp_path / "p"
    source.write_text("int main(void) {\n#pragma omp parallel\n  { }\n  return 0; }\n")
    subprocess.run(["gcc", "-fopenmp", source, "-o", program], check=True)
    for options in ((), ("--record", tmp_path / "r.events")):
        done = advise(*options, "--", program)
        assert done.returncode != 0
        assert all(way in done.stderr for way in ("libgomp", "clang -fopenmp", "LD_PRELOAD=libomp.so.5"))
    assert not (tmp_path / "r.events").exists()


def test_the_command_needs_no_service(built: Path) -> None:
    done = advise("--", built, "9")
    assert done.returncode == 0, done.stderr
    assert "solve+0x" in done.stdout


def test_the_command_records_a_run_and_reads_it(built: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.events"
    done = advise("--record", file, "--", built, "7")
    assert done.returncode == 0, done.stderr
    assert "solve+0x" in done.stdout
    assert "ran within their creation, as OpenMP runs those of a team of one thread" in done.stdout
    again = advise(file)
    assert again.stdout == done.stdout.partition("\n")[2]  # after the line that the program prints; the file tells all
    assert "nothing came of it" in advise("--record", file, "--", "true").stderr
    assert not file.exists() or advise(file).returncode == 0
    assert advise("--record", file, "--socket", tmp_path, "--", built, "7").returncode == 2
    assert advise("--record", file, file).returncode == 2


def test_without_a_compiler_the_command_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor.adapters.openmp, "LIBRARY", "never_built.so")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(InvalidValue, match="clang"):
        tool_library()
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(advisor.adapters.openmp, "LIBRARY", "never_built.so")
    monkeypatch.setenv("CC", "false")
    with pytest.raises(InvalidValue, match="false"):
        tool_library()
