"""Accounting of a test's Slurm cluster: slurmdbd and its database, which `sacct` reads."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

DBD = """
AuthType=auth/munge
DbdHost=login
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile=/run/slurm/slurmdbd.pid
LogFile=/run/slurm/log/slurmdbd.log
"""
DATABASE = """
[mariadbd]
datadir={data}
socket=/run/mysqld/mysqld.sock
pid-file=/run/mysqld/mysqld.pid
skip-networking
innodb_buffer_pool_size=64M
innodb_flush_log_at_trx_commit=0
"""
START = """
mkdir -p /run/mysqld
mariadbd --defaults-file={shared}/database.cnf --user=root >/run/slurm/log/mariadbd.log 2>&1 &
until mariadb-admin --socket=/run/mysqld/mysqld.sock ping >/dev/null 2>&1; do sleep 0.2; done
slurmdbd
until sacctmgr --immediate --readonly show cluster >/dev/null 2>&1; do sleep 0.3; done
sacctmgr --immediate add cluster gridbench >/dev/null
sacctmgr --immediate add account lab cluster=gridbench >/dev/null
sacctmgr --immediate add user ada account=lab cluster=gridbench >/dev/null
"""
MISSING = "These tests run a real {tool}, which is not installed; `make slurm` installs it."


@dataclass(frozen=True)
class Books:
    """Settings of a cluster with accounting.

    Attributes:
        configuration: lines of its slurm.conf.
        start: shell commands of its login node, before the controller starts.
    """

    configuration: str
    start: str


def books(shared: Path) -> Books:
    for tool in ("mariadbd", "slurmdbd"):
        if not shutil.which(tool):
            raise RuntimeError(MISSING.format(tool=tool))
    data = shared / "database"
    install = [
        "mariadb-install-db",
        f"--datadir={data}",
        "--user=root",
        "--skip-test-db",
        "--auth-root-authentication-method=socket",
    ]
    subprocess.run(install, check=True, capture_output=True)
    (shared / "database.cnf").write_text(DATABASE.format(data=data))
    (shared / "etc/slurmdbd.conf").write_text(DBD)
    (shared / "etc/slurmdbd.conf").chmod(0o600)
    return Books(
        "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=login\n"
        "AccountingStorageEnforce=associations,limits,qos",
        START.format(shared=shared),
    )
