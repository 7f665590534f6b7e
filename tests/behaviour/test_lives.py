"""What was acknowledged is there, once, through kills, power cuts, damage and full disks; or the start says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from lives import TROUBLES, Harness, Nursery, cuts
from lives_disk import journal, power_cut, shim

LIVES_A_STATE = 20
# How often each befalls a service: in the quick tests, and on request.
OFTEN = {"kills": (5, 1000), "cuts": (3, 300), "damages": (4, 2000), "truncations": (2, 50), "full": (2, 20)}
SLOW = [
    pytest.param(trouble, seed, min(LIVES_A_STATE, most - first), id=f"{trouble}-{seed}")
    for trouble, (_, most) in OFTEN.items()
    for seed, first in enumerate(range(0, most, LIVES_A_STATE), 1)
]


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    library = shim(tmp_path_factory.mktemp("shim"))
    if library is None:
        pytest.skip("NO C COMPILER HERE: nothing befalls a service")
    with Nursery(library) as begun:
        yield begun


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_service_is_its_twin(nursery: Nursery, tmp_path: Path, trouble: str) -> None:
    with Harness(nursery, tmp_path, 0) as harness:
        ends = TROUBLES[trouble](harness, OFTEN[trouble][0])
        assert ends.total() >= OFTEN[trouble][0] / 2  # some damages change nothing
        assert harness.durable > 0


@pytest.mark.slow
@pytest.mark.parametrize(("trouble", "seed", "lives"), SLOW)
def test_a_service_is_its_twin_again_and_again(
    nursery: Nursery, tmp_path: Path, trouble: str, seed: int, lives: int
) -> None:
    with Harness(nursery, tmp_path, seed) as harness:
        TROUBLES[trouble](harness, lives)


def test_the_harness_finds_a_disk_guilty_that_did_not_sync(
    nursery: Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With syncs that do nothing acknowledged rows are lost at a power cut: the harness must see that."""

    def unsynced(before: dict[str, bytes], steps: list[tuple[str, str, int, bytes]], rng: object) -> dict[str, bytes]:
        return power_cut(before, [step for step in steps if step[0] != "sync"], rng)  # type: ignore[arg-type]

    monkeypatch.setattr("lives.power_cut", unsynced)
    with pytest.raises(AssertionError), Harness(nursery, tmp_path, 0) as harness:
        cuts(harness, 10)


def test_steps_of_the_disk_are_recorded(nursery: Nursery, tmp_path: Path) -> None:
    with Harness(nursery, tmp_path, 0) as harness:
        harness.begin_well().close()
        kinds = {step[0] for step in journal(tmp_path / "journal")}
        assert {"make", "write", "sync"} <= kinds
