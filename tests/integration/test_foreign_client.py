"""A client that nobody here wrote: pynvim's MessagePack-RPC session talks to the service."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from live import rows_of, running

from advisor import Advisor

PROGRAM = Path(__file__).parents[1] / "support" / "foreign_client.py"


async def test_pynvim_talks_to_the_service(tmp_path: Path) -> None:
    async with running(tmp_path, state=tmp_path / "state"):
        client = await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), str(tmp_path / "s"),
            stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        said, _ = await client.communicate()
    heard = json.loads(said)
    assert heard["hello"]["sequence"] == 0
    assert heard["receipt"]["accepted"] == 90
    library = Advisor()
    for component, x, p, t in rows_of(90):
        library.observe(component, predictor=x, cores=p, elapsed_s=t)
    library.observe("c0", predictor=1.0, cores=1.0, elapsed_s=0.01)  # the notification
    assert heard["predict"] == library.predict("c0", predictor=4.0, cores=2).as_dict()
    assert heard["choice"]["cores"] == 8
    assert max(heard["plan"]["cores"].values()) <= heard["plan"]["cores_used"] <= 12
    assert heard["error"]  # it expects a pair where our error is a map, and raises; the session lives on
    assert heard["status"]["totals"]["rows_accepted"] == 91
