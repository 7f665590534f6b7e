"""Wheel and sdist: what they install, on each Python that is there. Slow: each gets an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
MINORS = (11, 12, 13, 14)
LONG_S = 900  # an installation on a busy machine; only what hangs takes longer
TABLE = "job,size_mb,threads,seconds\n" + "".join(
    f"blur,{size},{threads},{0.01 * size * (0.1 + 0.9 / threads)}\n"
    for size in (100, 200, 400)
    for threads in (1, 2, 4, 8)
)
# Run by the installed interpreter, far from the checkout.
SMOKE = """
import subprocess, sys
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path

import advisor
from advisor import Advisor, SyncClient
from advisor.adapters.openmp import SOURCES
from advisor.adapters.threads import Advised

assert "site-packages" in advisor.__file__, advisor.__file__
assert find_spec("adapters") is None
tops = {Path(file).parts[0] for file in metadata.files("core-advisor")}
assert {top for top in tops if not top.endswith(".dist-info")} - {"..", "__pycache__"} == {"advisor"}, tops
assert advisor.__version__ == metadata.version("core-advisor")
assert (resources.files("advisor") / "py.typed").is_file()
assert (SOURCES / "Makefile").is_file() and (SOURCES / "tool.c").is_file()
assert Advised.__module__ == "advisor.adapters.threads.advised"

from advisor import kernels
import advisor.models.fold, advisor.planning.partitions
assert set(kernels.states().values()) == {"compiled"}, kernels.states()
assert find_spec("numba") is None

adv = Advisor()
for cores in (1, 2, 4, 8):
    adv.observe("a", predictor=10, cores=cores, elapsed_s=1.0 / cores)
assert abs(adv.predict("a", predictor=10, cores=4).elapsed_s - 0.25) < 0.1

command = [str(Path(sys.executable).parent / "advisor")]
service = subprocess.Popen(
    [*command, "serve", "--socket", "here.sock", "--state", "new/folder/state"], stderr=subprocess.PIPE
)
try:
    assert any(b'"serving"' in line for line in service.stderr)
    client = SyncClient("here.sock", producer="smoke")
    client.observe("a", predictor=10, cores=2, elapsed_s=1.0)
    client.flush()
    assert client.predict("a", predictor=10, cores=2).elapsed_s > 0
    client.close()
finally:
    service.terminate()
    assert service.wait() == 0
"""


def python(minor: int) -> str | None:
    """Return an interpreter of this version that runs: of the path, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    beside = [str(path) for path in sorted(pyenv.glob(f"3.{minor}.*/bin/python"))]
    for path in filter(None, [shutil.which(f"python3.{minor}"), *beside]):
        reported = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)  # a shim may refuse
        if reported.returncode == 0 and reported.stdout.startswith(f"Python 3.{minor}."):
            return path
    return None


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    pytest.importorskip("build", reason="packages are made by `build`, which is not installed")
    folder = tmp_path_factory.mktemp("packages")
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT), at=folder)
    return {"wheel": next(folder.glob("*.whl")), "sdist": next(folder.glob("*.tar.gz"))}


def run(*command: str, at: Path) -> str:
    ours = ("PYTHON", "VIRTUAL_ENV", "ADVISOR_", "PYTEST_")  # a user's environment has none of these
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {"XDG_CACHE_HOME": str(at / "cache")}
    done = subprocess.run(
        command, cwd=at, env=environment, capture_output=True, text=True, timeout=LONG_S, check=False
    )  # fmt: skip
    assert done.returncode == 0, f"{command[-1]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def installed(interpreter: str, package: Path, at: Path) -> Path:
    run(interpreter, "-m", "venv", str(at / "venv"), at=at)
    run(str(at / "venv" / "bin" / "pip"), "install", "-q", str(package), at=at)
    return at / "venv" / "bin"


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
@pytest.mark.parametrize("minor", MINORS, ids=lambda minor: f"3.{minor}")
def test_a_package_works_where_it_is_installed(
    kind: str, minor: int, packages: dict[str, Path], tmp_path: Path
) -> None:
    interpreter = python(minor)
    if interpreter is None:
        pytest.skip(f"not run: there is no Python 3.{minor} on this machine")
    bin_folder = installed(interpreter, packages[kind], tmp_path)
    (tmp_path / "own.csv").write_text(TABLE)
    (tmp_path / "smoke.py").write_text(SMOKE)
    run(str(bin_folder / "python"), "-W", "error", "smoke.py", at=tmp_path)
    command = str(bin_folder / "advisor")
    assert run(command, "-V", at=tmp_path) == run(command, "--version", at=tmp_path)
    answer = run(
        command, "choose-cores", "blur", "--predictor", "300", "--cores-max", "16", "--table", "own.csv",
        "--columns", "component=job,x=size_mb,p=threads,t=seconds", at=tmp_path,
    )  # fmt: skip
    assert "blur" in answer


def test_what_the_packages_hold(packages: dict[str, Path]) -> None:
    with zipfile.ZipFile(packages["wheel"]) as wheel:
        names = wheel.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"advisor"}
    assert {"advisor/py.typed", "advisor/adapters/dask/plugin.py", "advisor/adapters/openmp/tool.c"} <= set(names)
    with tarfile.open(packages["sdist"]) as sdist:
        kept = {name.split("/", 1)[-1] for name in sdist.getnames()}
        assert not any(member.issym() for member in sdist.getmembers())  # links are lost in some archives
    assert {"README.md", "tests/conftest.py", "docs/protocol.md", "adapters/snet/README.md"} <= kept
