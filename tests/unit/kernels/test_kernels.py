"""How a source becomes compiled: from a library at once, else by a child; what a cache has is never stale nor others' code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import toy_kernels

from advisor import kernels
from advisor.kernels import cache, reading

SUPPORT = Path(toy_kernels.__file__).parent
KERNELS = toy_kernels.KERNELS
COMPILES = pytest.mark.skipif(not kernels.can_compile(), reason="no numba for this Python, or no C compiler")


def python(folder: Path, program: str, **environment: str) -> str:
    """Run a program in a process of its own, with a cache of its own; return what it prints."""
    env = {**os.environ, "ADVISOR_KERNELS_DIR": str(folder), "PYTHONPATH": os.pathsep.join([str(SUPPORT), *sys.path])}
    env.pop("ADVISOR_KERNELS", None)
    ran = subprocess.run(
        [sys.executable, "-c", program], env=env | environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert ran.stderr == ""
    return ran.stdout.strip()


START = """
import sys, numpy as np, toy_kernels
from toy_kernels import KERNELS
values, beside = np.zeros(3), (np.zeros(3), np.zeros(3, np.int64))
def calls(n):
    for _ in range(n):
        KERNELS.fold(values, beside, 0.5)
def awaited():
    import threading
    for thread in threading.enumerate():
        if thread.name == "advisor-kernels":
            thread.join()
"""


def files_of(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


def doubled(values: Any) -> Any:
    made = np.zeros(len(values))
    for i in range(len(values)):
        made[i] = 2.0 * values[i]
    return made


def last_doubled(values: Any) -> float:
    return doubled(values)[len(values) - 1]


@COMPILES
def test_a_kernel_that_hands_an_array_it_made_to_another_is_refused(tmp_path):
    from advisor.kernels import emitting  # noqa: PLC0415 - needs numba

    with pytest.raises(TypeError, match="kernel doubled makes an array and returns one: let it fill one"):
        emitting.write_library(tmp_path / "made", [last_doubled], [("last_doubled", (np.ones(2),))], inline=False)


@COMPILES
def test_the_child_fills_the_cache_once_and_the_caller_takes_it_over_without_a_jump(tmp_path):
    program = START + (
        "calls(65); kept = KERNELS.fold; awaited(); print(KERNELS.ready, KERNELS.reason, 'numba' in sys.modules)\n"
        "calls(1); kept(values, beside, 0.5); print(values.tobytes().hex())"
    )
    first = python(tmp_path, program).splitlines()
    written = files_of(tmp_path)
    assert first[0].split() == ["True", "False"]  # a library needs no numba
    interpreted = python(tmp_path, program, ADVISOR_KERNELS="interpreted").splitlines()
    assert interpreted[0].split()[0] == "False"
    assert python(tmp_path, program).splitlines() == first
    assert interpreted[1] == first[1]
    assert written == files_of(tmp_path)


@COMPILES
def test_a_filled_cache_may_be_read_only_and_is_loaded_at_once_without_a_thread(tmp_path):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()")
    tmp_path.chmod(0o555)
    try:
        program = START + (
            "import threading; from advisor import kernels\n"
            "print(kernels.load_filled(), KERNELS.ready, threading.active_count(), 'numba' in sys.modules); calls(70)"
        )
        assert python(tmp_path, program) == "True True 1 False"
    finally:
        tmp_path.chmod(0o755)


@COMPILES
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_what_others_may_write_is_neither_loaded_nor_written(tmp_path, mode):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()")
    program = START + "calls(65); awaited(); print(KERNELS.ready, KERNELS.reason)"
    assert python(tmp_path, program) == "True"
    [compiled] = (each for each in tmp_path.iterdir() if each.name.endswith(".so"))
    for place in (compiled, tmp_path):
        before = place.stat().st_mode
        place.chmod(mode)
        written = files_of(tmp_path)
        said = python(tmp_path, START + "print(KERNELS.library())")
        assert said == "None", place
        assert files_of(tmp_path) == written
        place.chmod(before)
    tmp_path.chmod(mode)
    assert python(tmp_path, program) == "False no folder for compiled code can be written by you alone"
    tmp_path.chmod(0o700)


CALLS = """
from collections import namedtuple
one, many = values.copy(), np.zeros((3, 3))
frozen = values.copy(); frozen.flags.writeable = False
given = [
    (one, beside, 0.5), (one, beside, np.float64(0.5)), (one, beside, 1), (one, beside, True), (one, beside, np.float32(1)),
    (one, list(beside), 0.5), (one, beside[:1], 0.5), (one, (*beside, one), 0.5), (one, (one, one), 0.5),
    (one.astype("f4"), beside, 0.5), (one.astype(">f8"), beside, 0.5), (many, beside, 0.5), (many[:, 0], beside, 0.5),
    (many[0], beside, 0.5), (frozen, beside, 0.5), (one[::-1], beside, 0.5), (one.tolist(), beside, 0.5),
    (one, namedtuple("Pair", "a b")(*beside), 0.5), (one[:0], (one[:0], beside[1][:0]), 0.5),
]
def strange(each):
    before = KERNELS.strangers
    try:
        KERNELS.fold(*each)
    except (TypeError, ValueError, IndexError):
        pass
    return KERNELS.strangers - before
KERNELS.make()
print(KERNELS.ready, 'numba' in sys.modules, "".join(str(strange(each)) for each in given))
for wrong in ((), (one,), (one, beside, 0.5, 1.0)):
    try:
        KERNELS.fold(*wrong)
    except TypeError:
        print("TypeError")
"""


@COMPILES
def test_a_library_takes_the_types_of_its_examples_and_leaves_the_rest_to_the_interpreter(tmp_path):
    taken = "0011111111111011110"
    assert python(tmp_path, START + CALLS).split() == ["True", "False", taken, *["TypeError"] * 3]


def test_a_short_process_imports_no_numba_and_starts_no_thread(tmp_path):
    program = START + "import threading; calls(64); print('numba' in sys.modules, threading.active_count())"
    assert python(tmp_path, program) == "False 1"
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_source_stays_interpreted_and_says_so():
    program = START + "calls(65); awaited(); calls(1); print(KERNELS.ready, KERNELS.reason, 'numba' in sys.modules)"
    said = python(Path("/proc/nowhere"), program)
    assert said.startswith("False no ")
    assert said.endswith("False")


@COMPILES
def test_a_damaged_file_is_not_loaded_and_made_again_for_the_next(tmp_path):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()")
    [file] = tmp_path.glob("*.so")
    file.write_bytes(b"damaged" + file.read_bytes()[7:])
    program = START + "print(KERNELS.reason); calls(65); awaited(); calls(1); print(KERNELS.ready, KERNELS.reason)"
    said = python(tmp_path, program)
    assert said.startswith(f"{file.name}: ImportError")
    assert python(tmp_path, program).strip().endswith("True")  # made again


@COMPILES
def test_what_cannot_be_compiled_is_tried_once_a_machine(tmp_path):
    (tmp_path / "bad_kernels.py").write_text(
        "import numpy as np\nfrom advisor import kernels\n"
        "def fold(values):\n    return {}.get(values, lambda: values)()\n"
        "KERNELS = kernels.Source(__name__, (fold,), lambda: [('fold', (np.zeros(1),))], patience=0)\n"
    )
    program = (
        "import threading, numpy as np\nfrom bad_kernels import KERNELS\n"
        "try:\n    KERNELS.fold(np.zeros(1))\nexcept TypeError:\n    pass\n"
        "for each in threading.enumerate():\n    if each.name == 'advisor-kernels': each.join()\nprint(KERNELS.reason)"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    first = python(tmp_path / "cache", program, **env)
    assert "Error" in first
    [failed] = (tmp_path / "cache").glob("bad_kernels-*")
    assert failed.name.endswith(cache.FAILED)
    assert python(tmp_path / "cache", program, **env) == first


@COMPILES
def test_where_nothing_can_be_linked_kernels_stay_interpreted_and_say_so(tmp_path):
    program = START + "calls(65); awaited(); calls(1); print(KERNELS.ready, KERNELS.reason)"
    said = python(tmp_path, program, CC="no-such-compiler")
    assert said.startswith("False numba, or a C compiler")


@COMPILES
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_counts_anew(tmp_path):
    program = START + (
        "import os\ncalls(66); child = os.fork()\n"
        "if child == 0:\n    calls(66); awaited(); calls(1); os._exit(0 if KERNELS.ready or KERNELS.reason else 3)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); awaited(); print(KERNELS.ready)"
    )
    assert python(tmp_path, "import warnings; warnings.simplefilter('ignore')\n" + program).split() == ["0", "True"]


def changed(function: FunctionType, **constants: Any) -> FunctionType:
    return FunctionType(function.__code__, function.__globals__ | constants, function.__name__)


def test_the_fingerprint_has_all_that_is_compiled():
    functions = reading.in_order([toy_kernels.fold])
    assert [each.__name__ for each in functions] == ["grow", "fold"]
    same = reading.text_of(reading.in_order([toy_kernels.fold]))
    assert reading.text_of(functions) == same
    assert reading.text_of([changed(toy_kernels.grow, SCALE=0.31), functions[1]]) != same
    assert reading.text_of(functions[1:]) != same


def test_the_fingerprint_is_the_same_in_every_process(tmp_path):
    program = "from toy_kernels import KERNELS; print(KERNELS.library_name)"
    assert {python(tmp_path, program, PYTHONHASHSEED=str(seed)) for seed in (1, 2, 3)} == {KERNELS.library_name}


def test_the_oldest_states_of_a_source_are_removed(tmp_path):
    others = {"one.kernels-n-1", "one.kernels.more-m-1", "one-m-1"}  # of another machine, of other sources
    for age, name in enumerate([f"one.kernels-m-{k}" for k in range(1, 6)] + sorted(others)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (age % 5, age % 5))
    cache.remove_others(tmp_path / "one.kernels-m-1")
    assert {each.name for each in tmp_path.iterdir()} == others | {f"one.kernels-m-{k}" for k in (1, 3, 4, 5)}


def test_a_first_answer_loads_no_compiler_and_nothing_that_it_does_not_ask_for(tmp_path):
    program = (
        "import sys, threading\nfrom advisor import Advisor\nadv = Advisor()\n"
        "for k in range(30):\n    adv.observe('a', predictor=10.0 + k, cores=1 + k % 4, elapsed_s=1.0 + k)\n"
        "adv.predict('a', predictor=20.0, cores=2), adv.choose_cores('a', predictor=20.0, cores_max=8)\n"
        "heavy = ('numba', 'lark', 'anyio', 'msgpack', 'subprocess', 'advisor.planning', 'advisor.network',\n"
        "         'advisor.profile', 'advisor.simulation', 'advisor.service', 'advisor.client')\n"
        "print([name for name in heavy if name in sys.modules], threading.active_count())"
    )
    assert python(tmp_path, program) == "[] 1"
