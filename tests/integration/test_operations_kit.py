"""The operator's kit: the unit and the image's commands run the service as they say; `status` says how it is."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from service_process import serving
from terminal import in_terminal

from advisor.cli import advisor
from advisor.client import SyncClient

KIT = Path(__file__).parents[2] / "docs" / "operations"
UNIT, IMAGE = (KIT / "advisor.service").read_text(), (KIT / "Containerfile").read_text()
SYSTEMD = shutil.which("systemd-analyze")
PLACES = ("/run/advisor", "/var/lib/advisor", "/var/cache/advisor")


def invoke(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(advisor, list(map(str, arguments)), env=environment)


def environment(text: str, word: str, folder: Path) -> dict[str, str]:
    """Return the variables that a unit or an image sets, their folders below `folder`."""
    reported = dict(
        each.partition("=")[::2] for line in re.findall(rf"^{word}(.*)$", text, re.MULTILINE) for each in line.split()
    )
    for place in PLACES:
        reported = {key: value.replace(place, f"{folder}{place}") for key, value in reported.items()}
    return reported | {"ADVISOR_HTTP": "127.0.0.1:0"}


@contextmanager
def started(command: str, variables: dict[str, str]) -> Iterator[SyncClient]:
    """Run a command of the kit, `advisor` being ours, until SIGTERM: then it ends well."""
    arguments = shlex.split(command)[1:]
    process = subprocess.Popen(
        [sys.executable, "-m", "advisor.cli", *arguments],
        env=os.environ | variables | {"ADVISOR_KERNELS": "interpreted"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        while '"event": "serving"' not in (line := process.stderr.readline().decode()):
            assert line, "it ended"
        with SyncClient(variables["ADVISOR_SOCKET"], producer="test") as client:
            yield client
        process.send_signal(signal.SIGTERM)
        rest = process.communicate()[1].decode()
        assert (process.returncode, '"event": "stopped"' in rest) == (0, True), rest
    finally:
        process.kill()
        process.communicate()


@pytest.mark.skipif(SYSTEMD is None, reason="NO SYSTEMD HERE: systemd-analyze cannot verify the unit")
def test_systemd_has_nothing_to_say_against_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "advisor.service"
    unit.write_text(UNIT.replace("/opt/advisor/bin/advisor", sys.executable))
    checked = subprocess.run([str(SYSTEMD), "verify", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize("which", ["unit", "image"])
def test_the_command_of_the_kit_serves_where_its_variables_say(tmp_path: Path, which: str) -> None:
    if which == "unit":
        variables = environment(UNIT, "Environment=", tmp_path)
        command = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[0]
    else:
        variables = environment(IMAGE, "ENV ", tmp_path)
        command = shlex.join(json.loads(re.findall(r"^CMD (.*)$", IMAGE, re.MULTILINE)[0]))
    with started(command, variables) as client:
        client.observe("c", predictor=1.0, cores=1, elapsed_s=1.0)
        client.flush()
        health = re.findall(r"CMD advisor (\w+)$", IMAGE, re.MULTILINE)[0]
        assert invoke(health, ADVISOR_SOCKET=variables["ADVISOR_SOCKET"]).exit_code == 0
    assert Path(variables["ADVISOR_STATE"]).is_file()
    assert Path(variables["ADVISOR_STATE"]).parent.stat().st_mode & 0o077 == 0
    assert invoke("status", "--json", "--state", variables["ADVISOR_STATE"]).exit_code == 0


def test_status_says_how_a_service_is_and_its_state_at_rest(tmp_path: Path) -> None:
    state = tmp_path / "kept" / "state"
    with serving(tmp_path, "--state", state, "--no-compiled") as (socket, process):
        with SyncClient(str(socket), producer="film") as client:
            for x in range(1, 40):
                client.observe("resample", predictor=x, cores=1, elapsed_s=0.1 * x)
            client.flush()
            [reported] = in_terminal([["status", "--socket", socket]], 80)
        assert re.search(r"^resample .* 39 ", reported, re.MULTILINE), reported
        assert "storage ok" in reported
        process.kill()
        process.wait()
    assert invoke("status", "--socket", socket).exit_code == 1
    assert invoke("status", "--state", state).exit_code == 0
    for log in tmp_path.glob("kept/state-*"):
        log.unlink()
    assert invoke("status", "--state", state).exit_code != 0


def test_a_service_without_a_state_says_that_nothing_is_kept(tmp_path: Path) -> None:
    for name, more, times in (("none", (), 1), ("kept", ("--state", tmp_path / "state"), 0)):
        (tmp_path / name).mkdir()
        with serving(tmp_path / name, "--no-compiled", *more):
            pass
        log = (tmp_path / name / "log").read_text()
        assert log.count("no state: all that is learned ends with the service") == times
