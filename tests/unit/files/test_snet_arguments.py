"""Allocations as arguments of S-Net's runtime."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor import Advisor
from advisor.domain.allocations import Allocation
from advisor.files.snet_arguments import arguments_of, placed_on_workers
from advisor.network import parse, write


def planned(text: str, **instances: int) -> list[str]:
    network = parse(text)
    found = Allocation(
        dict.fromkeys(network.keys, 1), {key: instances[key.replace("#", "")] for key in network.keys}, 0, 1.0, 1.0, ()
    )
    return arguments_of(network, found)


@pytest.mark.parametrize(
    ("text", "instances", "arguments"),
    [
        ("a .. b", {"a": 1, "b": 1}, ["-w", "2", "-c", "1"]),
        ("a .. b", {"a": 3, "b": 3}, ["-w", "6", "-c", "1 3:a,b"]),
        ("a .. (b || c)", {"a": 16, "b": 4, "c": 1}, ["-w", "21", "-c", "1 16:a 4D:b"]),
        ("a ** {x} .. (b | c)", {"a": 2, "b": 2, "c": 1}, ["-w", "5", "-c", "1 2D:a 2:b"]),
        ("(a .. (b .. c)) !! <t> .. a", {"a1": 2, "b": 1, "c": 1, "a2": 5}, ["-w", "9", "-c", "1 5D:a"]),
    ],
)
def test_workers_and_concurrency(text: str, instances: dict[str, int], arguments: list[str]) -> None:
    assert planned(text, **instances) == arguments


def test_boxes_in_turns_count_their_group_once() -> None:
    network = parse("a .. b")
    advisor = Advisor()
    for box, seconds in (("a", 0.1), ("b", 0.3)):
        for _ in range(8):
            advisor.observe(box, elapsed_s=seconds)
    found = advisor.allocate(network, cores=1, allowed=[1], instances_max=1)
    assert found.groups
    assert arguments_of(network, found) == ["-w", "1", "-c", "1"]
    assert arguments_of(network, replace(found, instances={"a": 2, "b": 1})) == ["-w", "1", "-c", "1 2:a"]


def test_the_least_busy_group_is_on_the_worker_that_has_what_is_no_box() -> None:
    network = parse("a .. (b | c) .. d * {x}")
    advisor = Advisor()
    for box, seconds in (("a", 0.1), ("b", 0.4), ("c", 0.2), ("d", 0.3)):
        for _ in range(4):
            advisor.observe(box, cores=1, elapsed_s=seconds)
    found = advisor.allocate(network, cores=2, nodes=1, allowed=[1], shares=[[1, 1]], depths=[1])
    arguments, placed = placed_on_workers(network, found)
    assert arguments == ["-w", "2", "-dloc"]
    worker = {box: placed.nodes[at + 1].place for box, at in zip(placed.keys, placed.boxes, strict=True)}
    busy = [sum(found.utilization[box] for box in worker if worker[box] == each) for each in (0, 1)]  # type: ignore[index]
    assert busy[0] <= busy[1]
    assert {frozenset(components) for _, components in found.groups} == {
        frozenset(box for box in worker if worker[box] == each) for each in (0, 1)
    }
    assert parse(write(placed)) == placed
    own, _ = placed_on_workers(network, advisor.allocate(network, cores=9, allowed=[1], shares=[[1, 1]], depths=[1]))
    assert own == ["-w", "4", "-dloc"]
