"""The baseline of every ingest benchmark: a service that works row by row, in plain Python.

    python benchmarks/per_row_service.py SOCKET

It speaks enough of the protocol to be sent the same bytes: it decodes with msgpack, looks the component's name up in a
dict, and folds a Python list of 30 sums, Σ w·u^m·p^-q (m ≤ 6, q ≤ 2), Σ w·t·u^m·p^-q (m ≤ 3, q ≤ 1) and Σ w·t², with
w = 1/t². No row is validated, no weight modelled, nothing is shifted, counted exactly once or stored.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from typing import Any

import msgpack

READ_BYTES = 2**18


def fold(sums: list[float], x: float, p: float, t: float) -> None:
    """Add one row to its component's sums."""
    w = 1.0 / (t * t)
    wq, wqq, wt = w / p, w / (p * p), w * t
    wtq = wt / p
    x2 = x * x
    x3 = x2 * x
    x4, x5, x6 = x2 * x2, x2 * x3, x3 * x3
    sums[0] += w
    sums[1] += w * x
    sums[2] += w * x2
    sums[3] += w * x3
    sums[4] += w * x4
    sums[5] += w * x5
    sums[6] += w * x6
    sums[7] += wq
    sums[8] += wq * x
    sums[9] += wq * x2
    sums[10] += wq * x3
    sums[11] += wq * x4
    sums[12] += wq * x5
    sums[13] += wq * x6
    sums[14] += wqq
    sums[15] += wqq * x
    sums[16] += wqq * x2
    sums[17] += wqq * x3
    sums[18] += wqq * x4
    sums[19] += wqq * x5
    sums[20] += wqq * x6
    sums[21] += wt
    sums[22] += wt * x
    sums[23] += wt * x2
    sums[24] += wt * x3
    sums[25] += wtq
    sums[26] += wtq * x
    sums[27] += wtq * x2
    sums[28] += wtq * x3
    sums[29] += wt * t


class PerRowService(asyncio.BufferedProtocol):
    """One connection; all share the table."""

    def __init__(self, table: dict[str, list[float]]) -> None:
        self.table = table
        self.names: list[str] = []
        self.buffer = bytearray(READ_BYTES)
        self.unpacker = msgpack.Unpacker(max_buffer_size=2**26)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.unpacker.feed(memoryview(self.buffer)[:nbytes])
        answers = []
        for message in self.unpacker:
            if message[0] == 2:
                self.observe(message[2])
            else:
                answers.append(msgpack.packb([1, message[1], None, self.answer(message[2], message[3])]))
        if answers:
            self.transport.write(b"".join(answers))

    def observe(self, row: list[Any]) -> None:
        sums = self.table.get(row[0])
        if sums is None:
            sums = self.table[row[0]] = [0.0] * 30
        fold(sums, row[1], row[2], row[3])

    def answer(self, method: str, params: list[Any]) -> dict[str, Any]:
        if method == "observe_rows":
            for row in params[0]["rows"]:
                self.observe(row)
            return {"accepted": len(params[0]["rows"]), "sequence": params[0].get("sequence")}
        if method == "observe_columns":
            columns = params[0]
            n = len(columns["index"]) // 4
            names = columns.get("components") or self.names
            values = [struct.unpack(f"<{n}d", columns[key]) for key in ("predictor", "cores", "elapsed_s")]
            for i, x, p, t in zip(struct.unpack(f"<{n}I", columns["index"]), *values, strict=True):
                self.observe([names[i], x, p, t])
            return {"accepted": n, "sequence": columns.get("sequence")}
        if method == "names":
            self.names[params[0] :] = params[1]
        return {"components": len(self.table)}


async def main(path: str) -> None:
    table: dict[str, list[float]] = {}
    server = await asyncio.get_running_loop().create_unix_server(lambda: PerRowService(table), path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
