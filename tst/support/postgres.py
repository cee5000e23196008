"""A PostgreSQL server of Debian's package, in a folder of its own and on a socket there."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DEBIAN = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """The folder of `initdb` and `postgres`, where a server is installed."""
    for folder in sorted(_DEBIAN.glob("*/bin"), reverse=True):
        if (folder / "initdb").exists():
            return folder
    found = shutil.which("initdb")
    return None if found is None else Path(found).resolve().parent


@contextmanager
def serve() -> Iterator[str]:
    """The URL of an empty database on a new server. It can't run as root: it takes another user."""
    folder = Path(tempfile.mkdtemp(prefix="episodes-pg-"))
    try:
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(folder, user.pw_uid, user.pw_gid)
        folder.chmod(0o755)
        bin_folder = programs()
        assert bin_folder is not None
        data, log = folder / "data", folder / "log"
        _run(bin_folder / "initdb", "-D", data, "-U", "episodes", "-A", "trust", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c max_connections=40"
        _run(bin_folder / "pg_ctl", "-D", data, "-l", log, "-o", options, "-w", "start")
        try:
            yield f"postgresql://episodes@/postgres?host={folder}"
        finally:
            _run(bin_folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: object) -> None:
    as_user = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    done = subprocess.run(
        [str(part) for part in command],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if "initdb" in str(command[0]) else subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        text=True,
        **as_user,
    )
    assert done.returncode == 0, done.stdout
