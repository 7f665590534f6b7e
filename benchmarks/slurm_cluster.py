"""A real Slurm on this machine: slurmctld, slurmd, slurmdbd and MariaDB of Debian's packages, in a folder, as root.

    apt-get install slurmctld slurmd slurmdbd slurm-client munge mariadb-server

One node is declared with 64 CPUs, whatever the machine has: its jobs sleep.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from pathlib import Path

CPUS = 64
MEGABYTES = 16000
NEEDED = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sbatch", "sacct")
START_S = 60.0
PLUGIN = Path(__file__).resolve().parents[1] / "adapters" / "slurm" / "job_submit.lua"

DATABASE = """
AuthType=auth/munge
DbdHost=localhost
DbdPort={dbd_port}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={sql_port}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct
LogFile={at}/slurmdbd.log
PidFile={at}/slurmdbd.pid
"""
CONTROLLER = """
ClusterName=advisor
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.pid
SlurmctldLogFile={at}/slurmctld.log
SlurmdLogFile={at}/slurmd.log
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0,sched_min_interval=0
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={dbd_port}
{plugin}
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={megabytes} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP DefMemPerNode=400
"""


def missing() -> list[str]:
    """Return what is not here of what a cluster needs."""
    found = [name for name in NEEDED if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin") is None]
    return found if os.geteuid() == 0 else [*found, "root"]


@contextlib.contextmanager
def cluster(at: Path, *, advice: Path | None = None) -> Generator[Mapping[str, str]]:
    """Yield the environment in which Slurm's commands reach a cluster that runs in a folder; with `advice`, with the plugin."""
    ports = _free_ports(4)
    names = dict(zip(("sql_port", "dbd_port", "ctld_port", "slurmd_port"), ports, strict=True))
    values = names | {"at": at, "host": socket.gethostname().partition(".")[0], "cpus": CPUS, "megabytes": MEGABYTES}
    environment = os.environ | {"SLURM_CONF": str(at / "slurm.conf"), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    for folder in ("state", "spool", "db"):
        (at / folder).mkdir(parents=True, exist_ok=True)
    (at / "slurmdbd.conf").write_text(DATABASE.format_map(values))
    (at / "slurmdbd.conf").chmod(0o600)
    plugin = "" if advice is None else "JobSubmitPlugins=lua"
    (at / "slurm.conf").write_text(CONTROLLER.format_map(values | {"plugin": plugin}))
    if advice is not None:
        (at / "job_submit.lua").write_text(PLUGIN.read_text())
        environment["ADVISOR_SLURM_ADVICE"] = str(advice)
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> None:
        with (at / f"{command[0]}.out").open("wb") as out:
            started.append(subprocess.Popen(command, env=environment, stdout=out, stderr=out))

    try:
        _start_munge()
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={at}/db", "--auth-root-authentication-method=normal"],
            check=True, capture_output=True,
        )  # fmt: skip
        start(
            "mariadbd", "--no-defaults", f"--datadir={at}/db", f"--socket={at}/sql", f"--port={names['sql_port']}",
            "--bind-address=127.0.0.1", "--user=root", "--innodb-buffer-pool-size=64M",
        )  # fmt: skip
        users = " ".join(
            f"create user slurm@'{host}' identified by 'slurm'; grant all on slurm_acct.* to slurm@'{host}';"
            for host in ("127.0.0.1", "localhost")
        )
        sql = ["mariadb", "--no-defaults", f"--socket={at}/sql", "-e"]
        _until(environment, *sql, "select 1")
        subprocess.run([*sql, f"create database slurm_acct; {users}"], check=True)
        start("slurmdbd", "-D")
        _until(environment, "sacctmgr", "-n", "show", "cluster")
        start("slurmctld", "-D")
        _until(environment, "scontrol", "ping")
        start("slurmd", "-D")
        _until(environment, "sh", "-c", "sinfo -h -o %T | grep -q idle")
        _until(environment, "sh", "-c", "sacctmgr -n show cluster | grep -q advisor")
        yield environment
    finally:
        for each in reversed(started):
            each.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.wait(20.0)
            each.kill()


def _start_munge() -> None:
    key = Path("/etc/munge/munge.key")
    if subprocess.run(["pgrep", "-x", "munged"], capture_output=True, check=False).returncode == 0:
        return
    if not key.exists():
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        shutil.chown(key, "munge", "munge")
    run = Path("/run/munge")
    run.mkdir(exist_ok=True)
    shutil.chown(run, "munge", "munge")
    subprocess.run(["runuser", "-u", "munge", "--", "/usr/sbin/munged"], check=True)


def _until(environment: Mapping[str, str], *command: str) -> None:
    """Wait until a command succeeds."""
    end = time.monotonic() + START_S
    while subprocess.run(command, env=environment, capture_output=True, check=False).returncode:
        if time.monotonic() > end:
            raise TimeoutError(f"{' '.join(command)} does not succeed in {START_S:g} s")
        time.sleep(0.1)


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
