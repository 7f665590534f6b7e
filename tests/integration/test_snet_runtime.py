"""The public S-Net runtimes, built from sources that ADVISOR_SNET_SOURCES names: a folder with ``snet/build.sh``."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from live import PATIENCE_S

from advisor.cli import advisor
from advisor.cli.learning import learn_command
from advisor.errors import UnknownNetwork
from advisor.files.snet_input import source_of, values_of
from advisor.files.snet_runs import run_in
from advisor.service import load_config
from advisor.service.listeners import Listeners
from advisor.service.snet_resources import SnetResources

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import snet_loop

SOURCES = Path(os.environ.get("ADVISOR_SNET_SOURCES", "/nowhere"))
RECORDS = 400
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SOURCES / "snet" / "build.sh").exists(), reason="ADVISOR_SNET_SOURCES names no sources"),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("snet")
    subprocess.run(["bash", SOURCES / "snet" / "build.sh", SOURCES, out], check=True, capture_output=True)
    made = subprocess.run(
        [sys.executable, SOURCES / "snet" / "make_input.py", str(RECORDS), "5", "0.3"], check=True, capture_output=True
    )
    (out / "input.xml").write_bytes(made.stdout)
    maker = [sys.executable, SOURCES / "snet" / "make_input.py", "4000", "5", "0.3"]
    (out / "long.xml").write_bytes(subprocess.run(maker, check=True, capture_output=True).stdout)
    return out


def logs_of(built: Path, program: str, scheduler: str) -> Path:
    """Run a program on two workers; return the folder of its logs."""
    folder = built / f"{program}-{scheduler}-logs"
    folder.mkdir(exist_ok=True)
    workers = "3" if scheduler == "central" else "2"  # the central scheduler has a thread of its own
    command = [built / f"{program}-{scheduler}", "-w", workers, "-m", "A", "-i", built / "input.xml", "-o", "out.xml"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def learned(folder: Path, state: Path, *given: str) -> str:
    done = CliRunner().invoke(learn_command, [str(folder), "--from", "snet", "--state", str(state), *given])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("scheduler", ["lpel", "central"])
def test_every_run_of_each_box_is_learned_once(built: Path, tmp_path: Path, scheduler: str) -> None:
    for program, runs in (("film", 7), ("pair", 2), ("tag", 3)):
        folder = logs_of(built, program, scheduler)
        assert f"{runs * RECORDS:,} runs of boxes learned" in learned(folder, tmp_path / "state")
        assert "0 runs of boxes learned" in learned(folder, tmp_path / "state")


@pytest.mark.parametrize("scheduler", ["lpel", "central"])
def test_each_run_has_the_tag_of_the_record_that_entered(built: Path, scheduler: str) -> None:
    folder, n = logs_of(built, "tag", scheduler), source_of("<n>")
    run, _ = run_in(folder, "tag", {"": values_of(built / "input.xml", [n])[n]})
    rows = list(run.rows(ended=True))
    medians = {
        box: [
            float(
                np.median([row.elapsed_s for row in rows if row.component == box and size <= row.predictor < size + 50])
            )
            for size in (200, 400, 800, 1600, 3200)
        ]
        for box in ("linear", "square", "flat")
    }
    # their records carry no data: work grows as n, as n squared, and not at all, whatever else this machine does
    assert medians["linear"] == sorted(medians["linear"])
    assert medians["square"] == sorted(medians["square"])
    assert medians["linear"][-1] / medians["linear"][0] > 8 * max(medians["flat"]) / min(medians["flat"]) / 2
    assert medians["square"][-1] / medians["square"][0] > 2 * medians["linear"][-1] / medians["linear"][0]


def answer(state: Path, *words: str) -> dict[str, Any]:
    done = CliRunner().invoke(advisor, [*words, "--state", str(state), "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_a_learned_network_is_named_by_id_and_its_plans_speak_of_workers(built: Path, tmp_path: Path) -> None:
    for program in ("film", "pair", "tag"):
        definition = str(SOURCES / "snet" / f"{program}.snet")
        learned(logs_of(built, program, "lpel"), tmp_path / "state", "--network", program, "--definition", definition)
    found = answer(tmp_path / "state", "allocate", "film", "--cores", "16")
    assert set(found["cores"].values()) == {1}
    assert found["instances"]["tile"] == 3  # as many as it has replicas
    assert "workers" in {reason["code"] for reason in found["why"]}
    front = answer(tmp_path / "state", "allocate", "film", "--cores", "2", "--as", "snet")["arguments"]
    run = [built / "film-front", *front, "-i", built / "input.xml", "-o", tmp_path / "out.xml"]
    subprocess.run(run, check=True, capture_output=True)
    assert (tmp_path / "out.xml").read_text().count('type="data"') == RECORDS
    placed = answer(tmp_path / "state", "allocate", "film", "--cores", "2", "--as", "lpel")
    assert placed["arguments"] == ["-w", "2", "-dloc"]
    workers = dict(re.findall(r"(\w+) @ (\d)", placed["network"]))
    assert workers.keys() == {"load", "blur", "sharp", "step", "tile", "write"}
    (tmp_path / "both.json").write_text('[{"network": "film"}, {"network": "tag"}]')
    together = answer(tmp_path / "state", "allocate-together", str(tmp_path / "both.json"), "--cores", "9")
    assert {each["name"] for each in together["networks"]} == {"film", "tag"}
    shown = answer(tmp_path / "state", "network", "film")
    assert shown["flow"]["records"] == RECORDS


async def test_six_applications_on_three_cores_have_their_turns(built: Path) -> None:
    """Whatever else this machine does: whoever waits has the first core that is free or returned, in the order of waiting."""

    async def unknown(*_: Any, **__: Any) -> Any:
        raise UnknownNetwork("none")

    processors = sorted(os.sched_getaffinity(0))
    lent = [processors[n % len(processors)] for n in range(3)]
    resources = SnetResources(load_config(snet_resources=["127.0.0.1:0"]).snet_resources, lent, unknown)
    granting, served = resources.granting, set[object]()
    balance = granting.balance

    def watched(now: float) -> Any:
        orders = balance(now)
        served.update(order.app for order in orders if order.verb == "grant")
        assert granting.lent()["free"] == 0 or not granting.waiting(now)  # a core that is free goes out at once
        return orders

    granting.balance = watched  # type: ignore[method-assign]
    listeners = Listeners()
    (address,) = await resources.listen(listeners)
    follows = asyncio.create_task(resources.run())
    command = ["-w", "2", "-rs", f"127.0.0.1:{address.port}", "-i", str(built / "long.xml"), "-o", os.devnull]
    quiet = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.DEVNULL}
    apps = [await asyncio.create_subprocess_exec(built / "film-front", *command, **quiet) for _ in range(6)]
    async with asyncio.timeout(PATIENCE_S):
        assert [await app.wait() for app in apps] == [0] * 6
    follows.cancel()
    resources.close()
    listeners.close()
    assert len(served) == 6
    assert granting.counts["revoked"] >= 6
    assert granting.lent() == {"free": 3}


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> snet_loop.Built:
    """The programs, with a priority at which other load of this machine lengthens no run."""
    under = ("chrt", "-r", "10")
    if shutil.which(under[0]) is None or subprocess.run([*under, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no real-time priority here: measured runs would be as long as other load makes them")
    return snet_loop.build(SOURCES, tmp_path_factory.mktemp("loop"), RECORDS, 5, under)


@pytest.mark.parametrize("program", [*snet_loop.PROGRAMS, *snet_loop.OWN])
def test_who_obeys_has_nearly_the_throughput_of_the_best_placement(loop: snet_loop.Built, program: str) -> None:
    """Run, learn, allocate, obey: on two workers by the work of the busiest, on 16 cores by the runs of the obeyed one.

    Wall times of two cores are the benchmark's: other programs lengthen them by more than what is asserted here.
    """
    snet_loop.learn(loop, program)
    places = snet_loop.advised_places(loop, program)
    learned = snet_loop.jobs_of(loop, program, loop.out / f"{program}-learned")
    assert snet_loop.busiest_share(learned, places) >= 0.95
    logs = loop.record(program, "obeyed", places)
    ran_on = dict(re.findall(r" (\w+) (\d+)#", (logs / "n00_tasks.map").read_text()))
    assert {box: int(ran_on[box]) for box in places} == places
    jobs = snet_loop.jobs_of(loop, program, logs)
    assert len(jobs) == RECORDS
    found = snet_loop.on_16(loop, program, jobs, list(places))
    assert found["advised"] >= 0.95
    assert found["advised"] >= max(found["default"], found["equal"])
