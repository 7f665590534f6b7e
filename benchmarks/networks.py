"""Components read per second from S-Net text, beside two baselines of the same run.

    python benchmarks/networks.py

The baselines: tokens of the same text found by one regular expression in pure Python (what no reader can be faster than),
and the same network read from its flat JSON. Each figure is the best of ROUNDS.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

from advisor.domain.networks import network_from_nodes
from advisor.network import parse, write

COMPONENTS = 5_000
ROUNDS = 5
TOKEN = re.compile(r"\s*(\.\.|\|\||->|\*\*|!!|\[\||\|\]|[A-Za-z_]\w*|[0-9]+|.)")


def declared(count: int) -> str:
    """A pipeline whose boxes are all declared, every fourth behind a choice in a replication."""
    boxes = "".join(f"box stage_{i} ((frame, <w>) -> (frame, <w>) | (error, <code>));\n" for i in range(count))
    uses = "\n .. ".join(f"(stage_{i} | [])*{{done}}" if i % 4 == 0 else f"stage_{i}" for i in range(count))
    return f"{boxes}net main connect {uses};\n"


def commented(count: int) -> str:
    """The same with a comment in every definition."""
    return declared(count).replace(" ((frame", " /* of frames */ ((frame")


def bare(count: int) -> str:
    """An expression of undeclared components."""
    return " .. ".join(f"stage_{i}" for i in range(count))


def operators(count: int) -> str:
    """Undeclared components under every operator."""
    part = "[{{a}} -> {{b = a}}] .. (c{0} * {{x}} | d{0} ! <t>) .. [|{{a}}, {{b}}|] .. (e{0} \\ {{y}})@1"
    return " .. ".join(part.format(i) for i in range(count // 3))


def best(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest round."""
    found = float("inf")
    for _ in range(ROUNDS):
        start = time.perf_counter()
        work()
        found = min(found, time.perf_counter() - start)
    return found


def main() -> None:
    """Print the table."""
    print(f"{'text':<12}{'components':>11}{'KiB':>7}{'read/s':>10}{'x tokens alone':>16}{'x flat JSON':>13}"
          f"{'written/s':>11}")  # fmt: skip
    for make in (declared, commented, bare, operators):
        text = make(COMPONENTS)
        network = parse(text)
        flat = json.dumps(network.as_nodes())
        count = len(network.keys)
        reading = best(lambda text=text: parse(text))
        tokens = best(lambda text=text: [match[1] for match in TOKEN.finditer(text)])
        plain = best(lambda flat=flat: network_from_nodes(json.loads(flat)))
        writing = best(lambda network=network: write(network))
        print(f"{make.__name__:<12}{count:>11,}{len(text) / 1024:>7.0f}{count / reading:>10,.0f}{reading / tokens:>16.1f}"
              f"{reading / plain:>13.2f}{count / writing:>11,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
