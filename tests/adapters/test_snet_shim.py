"""The adapter for S-Net's stream runtime against a real service, driven by two threads, under sanitizers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from c_curves import compiled
from live import PATIENCE_S, running

ROOT = Path(__file__).parents[2]
ADAPTER = ROOT / "adapters" / "snet"
SANITIZERS = {"memory": "-fsanitize=address,undefined", "threads": "-fsanitize=thread"}


@pytest.mark.parametrize("sanitizer", SANITIZERS)
async def test_runs_shares_depths_and_replicas_are_told_live(tmp_path: Path, sanitizer: str) -> None:
    parts = [str(ADAPTER / "advisor_snet.c"), str(ROOT / "tests" / "support" / "snet_runtime.c"), "-I", str(ADAPTER)]
    flags = ["-g", "-O1", SANITIZERS[sanitizer], "-fno-sanitize-recover=all", "-pthread"]
    program = compiled(tmp_path / "runtime", *parts, *flags)
    async with running(tmp_path) as live:
        process = await asyncio.create_subprocess_exec(
            str(program), str(tmp_path / "s"), "480", stdout=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(3 * PATIENCE_S):
            said, _ = await process.communicate()
        assert process.returncode == 0
        boxes = {"read": 960, "small": 240, "large": 720, "step": 960, "write": 960}
        assert said.split() == [b"1", str(sum(boxes.values())).encode(), b"0"]
        peer = await live.peer()
        status = await peer.call("status", {"components": True})
        assert {each["component"]: each["rows"] for each in status["components"]} == boxes
        flow = await peer.call("flow", {"network": "film"})
        assert flow["shares"] == [[0.25, 0.75]]
        assert flow["fan_outs"] == [[0.5, 0.5]]
        assert flow["visits"]["step"] == 1.0
        assert flow["records"] == 960
        (depths,) = flow["depths"]
        assert depths == pytest.approx(1.0, abs=0.05)  # but for the records that may still be on their way
        for box, seconds in (("read", 1e-6), ("small", 2e-6), ("large", 9e-6), ("step", 3e-6), ("write", 5e-7)):
            found = await peer.call("predict", {"component": box, "predictor": 64})
            assert found["elapsed_s"] == pytest.approx(seconds, rel=1e-6)


async def test_what_cannot_begin_says_so(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text(
        '#include "advisor_snet.h"\n#include <string.h>\n'
        "int main(void) {\nadvisor_snet_options o;\nmemset(&o, 0, sizeof o);\n"
        'o.socket = "s";\no.network = "";\nif (advisor_snet_begin(&o) >= 0) return 1;\n'
        'o.network = "net";\no.definition = "";\nif (advisor_snet_begin(&o) >= 0) return 2;\n'
        'advisor_snet_task_destroy(advisor_snet_task(":S1 box"));\nreturn advisor_snet_end(1);\n}\n'
    )
    flags = ["-I", str(ADAPTER), "-g", SANITIZERS["memory"], "-pthread"]
    program = compiled(tmp_path / "main", str(source), str(ADAPTER / "advisor_snet.c"), *flags)
    process = await asyncio.create_subprocess_exec(str(program))
    assert await process.wait() == 0
