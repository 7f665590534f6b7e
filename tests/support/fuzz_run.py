"""Feed targets with inputs led by coverage, as many as asked; what is a defect is left in `tests/fuzz/corpus`.

    pip install -e '.[test,fuzz]'
    PYTHONPATH=.:tests/support python tests/support/fuzz_run.py [--runs 10000000] [--seconds 600] [TARGET ...]

The runs are shared by the targets, a process each, one after the other; each ends sooner at its share of the seconds.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

INPUT_BYTES_MAX = 8192
INPUT_S_MAX = 300  # the first may have kernels compiled


def fuzz(target: str, options: list[str]) -> None:
    """Feed one target in this process, which ends with it."""
    import atheris  # noqa: PLC0415 - beside the tests, of those who ask for it

    from advisor.kernels.__main__ import modules  # noqa: PLC0415

    for module in modules():  # not instrumented: they are compiled
        importlib.import_module(module)
    with atheris.instrument_imports(include=["advisor"]):
        import fuzz_targets  # noqa: PLC0415

    fuzz_targets.taught()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    atheris.Setup([sys.argv[0], *options], lambda data: fuzz_targets.fed(target, data))
    atheris.Fuzz()


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("targets", nargs="*")
    asked.add_argument("--runs", type=int, default=10_000_000)
    asked.add_argument("--seconds", type=float, default=0.0)
    given = asked.parse_args()
    from fuzz_targets import CORPUS, TARGETS, seeds  # noqa: PLC0415 - not instrumented here

    names, total, failed = given.targets or list(TARGETS), 0, False
    for name in names:
        kept = CORPUS / name
        kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            for number, data in enumerate(seeds(name)):
                (Path(place) / f"{number}").write_bytes(data)
            options = [
                f"-runs={given.runs // len(names)}", f"-max_len={INPUT_BYTES_MAX}", f"-timeout={INPUT_S_MAX}",
                f"-max_total_time={round(given.seconds / len(names))}", f"-artifact_prefix={kept}/",
                "-print_final_stats=1", place,
            ]  # fmt: skip
            done = subprocess.run(
                [sys.executable, __file__, "--child", name, *options],
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
            )
        reported = done.stderr + done.stdout
        runs = sum(map(int, re.findall(r"stat::number_of_executed_units:\s*(\d+)", reported)))
        edges = re.findall(r"cov: (\d+)", reported)
        total += runs
        print(
            f"{name}: {runs} inputs, {edges[-1] if edges else '?'} edges, {'a defect' if done.returncode else 'none'}",
            flush=True,
        )
        if done.returncode:
            failed = True
            print("\n".join(reported.splitlines()[-60:]), flush=True)
        if not any(kept.iterdir()):
            kept.rmdir()
    print(f"{total} inputs in all")
    sys.exit(failed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        fuzz(sys.argv[2], sys.argv[3:])
    main()
