"""The command `allocate`: sweeps and options of a plan."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from snet_runs import TEXT, write_run

from advisor.cli import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


@pytest.fixture
def learned(tmp_path: Path) -> tuple[Path, str]:
    """A network and a table of its components: b is as long as all others together, and has a serial tenth."""
    rows = [
        f"{name},{x},{p},{work * x * (0.1 + 0.9 / p)}"
        for name, work in (("a", 1.0), ("b", 2.0), ("c", 1.0))
        for x in (1, 2, 3, 4)
        for p in (1, 2, 4, 8, 16)
    ]
    table, network = tmp_path / "rows.csv", tmp_path / "network.snet"
    table.write_text("\n".join(["component,x,p,t", *rows]) + "\n")
    network.write_text("a .. b .. c\n")
    return network, f"--table={table}"


def test_a_sweep_plans_for_each_number_of_cores(learned: tuple[Path, str], capsys: pytest.CaptureFixture[str]) -> None:
    network, table = learned
    status, out, _ = run(capsys, "allocate", network, table, "--sweep", "cores=4..40", "--json")
    assert status == 0
    found = json.loads(out)
    rates = [point["throughput_per_s"] for point in found["sweep"]]
    assert [point["cores"] for point in found["sweep"]] == list(range(4, 41))
    expected = [point["expected_per_s"] for point in found["sweep"]]
    assert expected == sorted(expected)
    seen = rates[: 25 - 4]  # up to 24 cores no component gets more than the 16 that were seen
    assert seen == sorted(seen)
    status, out, _ = run(capsys, "allocate", network, table, "--sweep", "cores=4..12:4,5", "--json")
    assert [point["cores"] for point in json.loads(out)["sweep"]] == [4, 5, 8, 12]
    for wrong in ("cores=-9..900", "cores=0..900", "cores=9..4", "cores=1..9:0", "boxes=1..2"):
        assert run(capsys, "allocate", network, table, "--sweep", wrong)[0] == 2
    status, out, _ = run(capsys, "allocate", network, table, "--sweep", "cores=4,8")
    assert status == 0
    assert "records/s" in out


def test_an_allocation_is_printed_as_arguments_of_s_nets_runtime(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, table = tmp_path / "net.snet", tmp_path / "table.csv"
    network.write_text("net n { box one ((a) -> (b)); box two ((b) -> (c)); } connect one .. two;")
    table.write_text("component,x,p,t\n" + "one,1,1,0.1\n" * 8 + "two,1,1,0.3\n" * 8)

    def said(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as caught:
            main(["allocate", str(network), "--as", "snet", "--table", str(table), *arguments])
        return int(caught.value.code or 0), capsys.readouterr().out

    assert said("--cores", "4", "--turns", "never") == (0, "-w 4 -c '1 3:two'\n")
    status, out = said("--cores", "4", "--turns", "never", "--json")
    assert (status, json.loads(out)["arguments"]) == (0, ["-w", "4", "-c", "1 3:two"])
    assert said("--cores", "4", "--instances-max", "2", "--turns", "never")[1] == "-w 3 -c '1 2:two'\n"
    assert said("--sweep", "cores=1..4")[0] == 2


def test_the_current_allocation_is_a_file_or_each_box(
    learned: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, table = learned
    asked = ("allocate", network, table, "--cores", 16, "--turns", "never", "--json")
    plan = tmp_path / "plan.json"
    plan.write_text(run(capsys, *asked)[1])
    cores = json.loads(plan.read_text())["cores"]
    by_box = [word for box, count in cores.items() for word in ("--current", f"{box}={count}")]
    for current in (["--current", plan], by_box):
        again = json.loads(run(capsys, *asked, *current)[1])
        assert again["cores"] == cores
        assert again["why"][0]["text"].startswith("the current allocation is kept")
    changed = json.loads(run(capsys, *asked, "--current", "a=8", "--current", "b=4", "--current", "c=4")[1])
    assert changed["cores"] == cores
    assert changed["why"][0]["text"].startswith("changed from the current allocation")
    for wrong in (["--current", tmp_path / "none.json"], ["--current", "a=8"], ["--current", plan, "--current", "a=8"]):
        assert run(capsys, *asked, *wrong)[0] == 2


@pytest.mark.parametrize("defined", [True, False])
def test_a_learned_flow_is_used_by_the_files_name_or_by_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], defined: bool
) -> None:
    logs, network, state = tmp_path / "film", tmp_path / "film.snet", tmp_path / "state"
    logs.mkdir()
    network.write_text(TEXT)
    for name, text in write_run(30, seed=11).files.items():
        (logs / name).write_text(text)
    definition = ("--definition", network) if defined else ()
    assert run(capsys, "learn", "--from", "snet", logs, "--state", state, *definition)[0] == 0
    status, out, err = run(capsys, "allocate", network, "--as", "snet", "--state", state, "--cores", 6)
    assert (status, out.startswith("-w ")) == (0, True), err
    status, by_id, err = run(capsys, "allocate", "film", "--as", "snet", "--state", state, "--cores", 6)
    assert (status, by_id) == ((0, out) if defined else (2, ""))
    assert ("film" in err) is not defined
    assert run(capsys, "allocate", "film", "--state", state, "--cores", 6)[0] == (0 if defined else 2)
    if defined:
        _a_network_by_id(tmp_path, capsys, state)
    network.write_text("read .. write\n")  # another network: nothing was learned of it
    _, out, _ = run(capsys, "allocate", network, "--state", state, "--cores", 6, "--json")
    assert sorted(json.loads(out)["cores"]) == ["read", "write"]


def _a_network_by_id(folder: Path, capsys: pytest.CaptureFixture[str], state: Path) -> None:
    """Each command takes the id, also where a folder has the same name; boxes of S-Net's logs run on one core."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _, out, err = run(capsys, "allocate", "film", "--state", state, "--cores", 40, "--json")
        found = json.loads(out)
        assert set(found["cores"].values()) == {1}, err
        assert max(found["instances"].values()) > 1
        assert "workers" in {reason["code"] for reason in found["why"]}
        _, out, _ = run(capsys, "allocate", "film", "--state", state, "--cores", 40, "--instances-max", 1, "--json")
        assert set(json.loads(out)["instances"].values()) == {1}
        box = next(iter(found["cores"]))
        both = [{"network": "film", "load": {box: 100}}, {"network": "read .. write", "name": "other"}]
        (folder / "both.json").write_text(json.dumps(both))
        together = ("allocate-together", "both.json", "--state", state, "--cores", 40)
        status, out, err = run(capsys, *together, "--json")
        assert status == 0, err
        assert [each["name"] for each in json.loads(out)["networks"]] == ["film", "other"]
        _, out, _ = run(capsys, "network", "film", "--state", state, "--json")
        assert json.loads(out)["flow"]["records"] == 30
        status, _, err = run(capsys, "network", "flim", "--state", state)
        assert (status, "known: film" in err) == (2, True)
        status, out, err = run(capsys, "allocate", "film", "--as", "lpel", "--cores", 3, "--state", state)
        assert (status, out.splitlines()[0]) == (0, "-w 3 -dloc"), err
        assert (
            run(capsys, "allocate", "film", "--as", "lpel", "--cores", 3, "--instances-max", 2, "--state", state)[0]
            == 2
        )
