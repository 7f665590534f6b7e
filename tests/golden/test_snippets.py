"""The programs in C and Perl of pages and demos: built as they stand, against a real service where they speak to one."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path

import pytest
from c_curves import compiled
from live import PATIENCE_S, running

from advisor import Advisor, __version__

ROOT = Path(__file__).parents[2]
STRICT = ("-Wall", "-Wextra", "-Werror", "-std=c99", "-O2")


def tool(*names: str) -> str:
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"NO {names[0].upper()} HERE: its program in demos is not tested")
    return found


def text(language: str, page: Path) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return found


def written(path: Path, *parts: str) -> Path:
    path.write_text("\n".join(parts), encoding="utf-8")
    return path


async def printed(*command: str | Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        said, cried = await process.communicate()
    assert process.returncode == 0, cried.decode()
    return said.decode()


async def spoken(*command: str | Path, directory: Path) -> str:
    """Return what a program printed that was given the address of a service."""
    async with running(directory):
        return await printed(*command, directory / "s")


def choice() -> tuple[int, float]:
    advisor = Advisor()
    for cores in (1, 2, 4, 8):
        advisor.observe("blur", predictor=1000.0, cores=cores, elapsed_s=0.5 + 3.5 / cores)
    chosen = advisor.choose_cores("blur", predictor=1000.0, cores_max=8)
    return chosen.cores, chosen.elapsed_s


async def test_c(tmp_path: Path) -> None:
    compiler = tool("cc", "gcc")
    await printed(compiler, *STRICT, ROOT / "demos" / "ask.c", "-o", tmp_path / "ask")
    answers = [json.loads(line) for line in (await spoken(tmp_path / "ask", directory=tmp_path)).splitlines()]
    assert [answer[:3] for answer in answers] == [[1, msgid, None] for msgid in (1, 2, 3)]
    hello, receipt, chosen = (answer[3] for answer in answers)
    assert (hello["version"], receipt["accepted"]) == (__version__, 4)
    assert (chosen["cores"], chosen["elapsed_s"]) == choice()


async def test_perl(tmp_path: Path) -> None:
    said = await spoken(tool("perl"), ROOT / "demos" / "ask.pl", directory=tmp_path)
    version, learned, chosen = said.splitlines()
    assert (version, learned) == (f"version {__version__}", "4 rows learned")
    cores, elapsed_s = re.fullmatch(r"(\d+) cores, (\S+) s", chosen).groups()  # type: ignore[union-attr]
    assert (int(cores), float(elapsed_s)) == choice()


async def test_the_curves_of_the_guide(tmp_path: Path) -> None:
    source = written(
        tmp_path / "main.c", '#include "advisor.h"', "#include <stdio.h>", "int main(int argc, char **argv) {",
        '    advisor_options options = {.path = argc > 1 ? argv[1] : "", .producer = "page", .curves_ms = 100};',
        "    advisor_client *client = advisor_client_new(&options);",
        '    while (advisor_find(advisor_client_curves(client), "blur", 4) < 0) advisor_client_wait(client, 100);',
        text("c", ROOT / "docs" / "guide.md"), '    printf("%d\\n", (int)cores);', "    advisor_client_free(client);",
        "    return 0;", "}", "",
    )  # fmt: skip
    program = compiled(tmp_path / "main", str(source))
    async with running(tmp_path) as live:
        peer = await live.peer()
        rows = [["blur", 400.0, cores, 0.5 + 3.5 / cores] for cores in (1.0, 2.0, 4.0, 8.0)]
        await peer.call("observe_rows", {"producer": "p", "sequence": 1, "rows": rows})
        asked = {"component": "blur", "predictor": 400.0, "cores_max": 16}
        assert int(await printed(program, tmp_path / "s")) == (await peer.call("choose_cores", asked))["cores"]


async def test_what_hooks_the_adapter_into_snets_runtime_compiles(tmp_path: Path) -> None:
    begin, spawn, record, end = text("c", ROOT / "adapters" / "snet" / "README.md").strip().split("\n\n")
    hooks = "".join(f"    __typeof__(advisor_snet_{name}) *{name};\n" for name in re.findall(r"mon\.(\w+) +=", begin))
    source = written(
        tmp_path / "hooks.c", '#include "advisor_snet.h"', f"struct {{ struct {{\n{hooks}}} mon; }} config;",
        "typedef struct { unsigned subid[2]; } record_id;",
        "void LpelTaskMonitor(void *t, struct mon_task_t *task);", "const char *SNetEntityStr(const void *entity);",
        "void begin(const char *film_snet_text);", "void spawn(void *t, const void *ent);",
        "void signalled(struct mon_task_t *mt, int in, record_id id, size_t size);", "void end(void);",
        f"void begin(const char *film_snet_text) {{\n{begin}\n}}", f"void spawn(void *t, const void *ent) {{\n{spawn}\n}}",
        f"void signalled(struct mon_task_t *mt, int in, record_id id, size_t size) {{\n{record}\n}}",
        f"void end(void) {{\n{end}\n}}", "",
    )  # fmt: skip
    where = ["-I", str(ROOT / "adapters" / "snet"), "-I", str(ROOT / "adapters" / "c")]
    await printed(tool("cc", "gcc"), *STRICT, *where, "-c", source, "-o", tmp_path / "hooks.o")


async def test_what_tells_the_size_of_a_task_runs(tmp_path: Path) -> None:
    source = written(
        tmp_path / "main.c", '#include "advisor_task.h"', "#include <stdio.h>",
        'static void work(int n, int i) { printf("%d\\n", n + i); }', "int main(void) {", "    int n = 40, i = 2;",
        text("c", ROOT / "adapters" / "openmp" / "README.md").replace('#include "advisor_task.h"', ""),
        "    return 0;", "}", "",
    )  # fmt: skip
    flags = ["-I", str(ROOT / "adapters" / "openmp"), "-fopenmp", "-ldl"]
    await printed(tool("cc", "gcc"), *STRICT, source, *flags, "-o", tmp_path / "main")
    assert await printed(tmp_path / "main") == "42\n"
