"""How a source becomes compiled: from a library at once, else in a child; what a cache has is never stale nor others' code.

Each way is tested: `LIBRARY`, linked by the machine's C compiler, and `NUMBA`, which is what a machine without one has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import toy_kernels
from kernel_laws import both_ways, used

from advisor import kernels
from advisor.kernels import cache, reading

SUPPORT = Path(toy_kernels.__file__).parent
KERNELS = toy_kernels.KERNELS
WITH_NUMBA = pytest.mark.skipif(not kernels.can_compile(), reason="numba is not there for this Python")
LIBRARY: dict[str, str] = {}
NUMBA = {"CC": "no-such-compiler"}
WAYS = [pytest.param(LIBRARY, id="library"), pytest.param(NUMBA, id="numba")]
needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


def arrays() -> Any:
    return np.arange(5.0), (np.linspace(0.0, 1.0, 5), np.zeros(5, np.int64))


def stream() -> Any:
    given = arrays()
    return given, [KERNELS.fold(*given, x) for x in (0.0, 1.0, -2.5, 1e-9, 7.125)]


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


@WITH_NUMBA
def test_same_bytes_both_ways():
    both_ways(stream, KERNELS)


def files_of(folder: Path) -> dict[Path, int]:
    return {file: file.stat().st_mtime_ns for file in folder.rglob("*") if file.is_file()}


@WITH_NUMBA
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
def test_the_child_fills_the_cache_once_and_the_caller_takes_it_over_without_a_jump(tmp_path, way):
    program = START + (
        "calls(65); kept = KERNELS.fold; awaited(); print(KERNELS.ready, KERNELS.reason, 'numba' in sys.modules)\n"
        "calls(1); kept(values, beside, 0.5); print(values.tobytes().hex())"
    )
    first = python(tmp_path, program, **way).splitlines()
    written = files_of(tmp_path)
    assert first[0].split() == ["True", str(way == NUMBA)]  # a library needs no numba
    interpreted = python(tmp_path, program, ADVISOR_KERNELS="interpreted").splitlines()
    assert interpreted[0].split()[0] == "False"
    assert python(tmp_path, program, **way).splitlines() == first
    assert interpreted[1] == first[1]
    assert written == files_of(tmp_path)


@WITH_NUMBA
@needs_compiler
def test_a_library_is_bound_from_the_first_call_on_and_needs_no_thread(tmp_path):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()")
    program = (
        START + "import threading; print(KERNELS.ready, threading.active_count(), 'numba' in sys.modules); calls(70)"
    )
    assert python(tmp_path, program) == "True 1 False"


@WITH_NUMBA
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
def test_a_filled_cache_may_be_read_only_and_is_loaded_at_once(tmp_path, way):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()", **way)
    folders = [tmp_path, *(each for each in tmp_path.iterdir() if each.is_dir())]
    for each in folders:
        each.chmod(0o555)
    try:
        program = START + "from advisor import kernels\nprint(kernels.load_filled(), KERNELS.ready); calls(1)"
        assert python(tmp_path, program) == "True True"
    finally:
        for each in folders:
            each.chmod(0o755)


@WITH_NUMBA
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_what_others_may_write_is_neither_loaded_nor_written(tmp_path, way, mode):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()", **way)
    program = START + "calls(65); awaited(); print(KERNELS.ready, KERNELS.reason)"
    assert python(tmp_path, program, **way) == "True"
    [compiled] = (each for each in tmp_path.iterdir() if each.name.endswith(".so") or each.is_dir())
    for place in (compiled, tmp_path):
        before = place.stat().st_mode
        place.chmod(mode)
        written = files_of(tmp_path)
        said = python(tmp_path, START + "print(KERNELS.filled())", **way)
        assert said == "None", place
        assert files_of(tmp_path) == written
        place.chmod(before)
    tmp_path.chmod(mode)
    assert python(tmp_path, program, **way) == "False no folder for compiled code can be written by you alone"
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
KERNELS.load(fill=True)
print(KERNELS.ready, 'numba' in sys.modules, "".join(str(strange(each)) for each in given))
for wrong in ((), (one,), (one, beside, 0.5, 1.0)):
    try:
        KERNELS.fold(*wrong)
    except TypeError:
        print("TypeError")
"""


@WITH_NUMBA
@needs_compiler
def test_a_library_takes_what_numba_takes_and_leaves_the_rest_to_the_interpreter(tmp_path):
    taken = "0011111111111011110"
    assert python(tmp_path, START + CALLS).split() == ["True", "False", taken, *["TypeError"] * 3]
    assert python(tmp_path / "numba", START + CALLS, **NUMBA).split() == ["True", "True", taken, *["TypeError"] * 3]


def test_a_short_process_imports_no_numba_and_starts_no_thread(tmp_path):
    program = START + "import threading; calls(64); print('numba' in sys.modules, threading.active_count())"
    assert python(tmp_path, program) == "False 1"
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_source_stays_interpreted_and_says_so():
    program = START + "calls(65); awaited(); calls(1); print(KERNELS.ready, KERNELS.reason, 'numba' in sys.modules)"
    said = python(Path("/proc/nowhere"), program)
    assert said.startswith("False no ")
    assert said.endswith("False")


@WITH_NUMBA
@needs_compiler
@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_file_is_not_loaded_and_made_again_for_the_next(tmp_path, way):
    python(tmp_path, "from toy_kernels import KERNELS; KERNELS.fill()", **way)
    [file] = [*tmp_path.glob("*.so"), *tmp_path.glob("*/fold-*")]
    file.write_bytes(b"damaged" + file.read_bytes()[7:])
    program = START + "print(KERNELS.reason); calls(65); awaited(); calls(1); print(KERNELS.ready, KERNELS.reason)"
    said = python(tmp_path, program, **way)
    assert said.startswith("False NotFilled" if way == NUMBA else f"{file.name}: ImportError")
    assert python(tmp_path, program, **way).strip().endswith("True")  # made again


@WITH_NUMBA
@needs_compiler
def test_a_kernel_that_needs_python_has_no_library_and_is_compiled_by_numba(tmp_path):
    (tmp_path / "listing.py").write_text(
        "from advisor import kernels\n"
        "def order(values):\n    values[:] = sorted(values)\n    return len(values)\n"
        "def examples():\n    import numpy as np\n    yield 'order', (np.zeros(1),)\n"
        "KERNELS = kernels.Source(__name__, (order,), examples)\n"
    )
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "advisor.kernels", "listing"]
    env = os.environ | env | {"ADVISOR_KERNELS_DIR": str(tmp_path / "cache")}
    refused = subprocess.run([*command, "--library"], env=env, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "let them make no list" in refused.stderr
    filled = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert Path(filled.stdout.split()[1]).name.startswith("listing-")
    assert (Path(filled.stdout.split()[1]) / cache.COMPLETE).is_file()


@WITH_NUMBA
def test_what_cannot_be_compiled_is_tried_once_a_machine(tmp_path):
    (tmp_path / "bad_kernels.py").write_text(
        "from advisor import kernels\n"
        "def fold(x: float) -> float:\n    return {}.get(x, lambda: x)()\n"
        "KERNELS = kernels.Source(__name__, (fold,), lambda: [('fold', (1.0,))], patience=0)\n"
    )
    program = START.replace("toy_kernels", "bad_kernels") + "KERNELS.fold(1.0); awaited(); print(KERNELS.reason)"
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    first = python(tmp_path / "cache", program, **env)
    assert "Error" in first
    [folder] = (tmp_path / "cache").glob("bad_kernels-*")
    assert (folder / cache.FAILED).is_file()
    assert python(tmp_path / "cache", program, **env) == first


@WITH_NUMBA
def test_types_without_an_example_are_interpreted_and_told():
    values, beside = arrays()
    narrow = values.astype(np.float32)
    with used("compiled", KERNELS):
        KERNELS.fold(values, beside, 1.0)
        with pytest.raises(TypeError, match=r"fold with \(float32\[1d\], \(float64\[1d\], int64\[1d\]\), float\)"):
            KERNELS.fold(narrow, beside, 1.0)
        with pytest.raises(AttributeError, match="no entry 'unfold'"):
            KERNELS.unfold(values)


@WITH_NUMBA
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


def test_a_library_has_another_name_for_other_types(tmp_path):
    program = (
        "from advisor import kernels; from toy_kernels import grow\n"
        "floats = kernels.Source('toy', (grow,), lambda: [('grow', (1.0,))]).library_name\n"
        "print(floats != kernels.Source('toy', (grow,), lambda: [('grow', (1,))]).library_name)"
    )
    assert python(tmp_path, program) == "True"


def test_the_fingerprint_is_the_same_in_every_process(tmp_path):
    program = "from toy_kernels import KERNELS; print(KERNELS.folder_name)"
    assert {python(tmp_path, program, PYTHONHASHSEED=str(seed)) for seed in (1, 2, 3)} == {KERNELS.folder_name}


def test_functions_that_call_each_other_are_refused_by_name():
    namespace: dict[str, Any] = {"__name__": "circle"}
    exec("def odd(n):\n return n and even(n - 1)\ndef even(n):\n return not n or odd(n - 1)\n", namespace)
    with pytest.raises(TypeError, match="in a circle at odd"):
        reading.in_order([namespace["odd"]])


def test_the_oldest_states_of_a_source_are_removed(tmp_path):
    for age in range(5):
        name = f"one.kernels-m-{age + 1}"
        if age % 2:
            (tmp_path / name).touch()  # a library
        else:
            (tmp_path / name).mkdir()
            (tmp_path / name / "fold").touch()
        os.utime(tmp_path / name, (age, age))
    others = {"one.kernels-n-1", "one.kernels.more-m-1", "one-m-1"}  # of another machine, of other sources
    for name in others:
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, 0))
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
