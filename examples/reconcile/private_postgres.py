"""A PostgreSQL of one's own: made in a directory, reached by a socket in it, gone afterwards."""

from __future__ import annotations

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
from typing import Iterator, Optional

BINARIES = "/usr/lib/postgresql/[0-9]*/bin"  # where Debian keeps them, one directory for each version
START_SECONDS = 30


class NoPostgres(Exception):
    """No server is installed here, or it does not start."""


@contextlib.contextmanager
def private_postgres() -> Iterator[str]:
    """Yield how to connect, as libpq reads it: to a server that takes nobody but this machine's users."""
    binaries = find_binaries()
    account = account_of_server()
    # Directly below /tmp: the path of a socket has a hundred characters at most.
    home = pathlib.Path(tempfile.mkdtemp(prefix="matins-pg-", dir="/tmp"))
    data, log = home / "data", home / "log"
    try:
        if account:
            os.chown(home, account.pw_uid, account.pw_gid)
        run([binaries / "initdb", "--pgdata", data, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync",
             "--username=postgres"], account, home)
        # Its socket only, no TCP. What it would lose with the machine is not wanted afterwards, so it need not sync.
        options = f"-c listen_addresses= -c unix_socket_directories={home} -c fsync=off -c max_connections=100"
        try:
            run([binaries / "pg_ctl", "start", "--pgdata", data, "--log", log, "--wait", "--timeout",
                 str(START_SECONDS), "--options", options], account, home)
            yield f"host={home} user=postgres dbname=postgres"
        finally:
            if (data / "postmaster.pid").exists():
                run([binaries / "pg_ctl", "stop", "--pgdata", data, "--mode", "immediate", "--wait"], account, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def find_binaries() -> pathlib.Path:
    found = [pathlib.Path(path) for path in glob.glob(BINARIES)]
    if found:
        return max(found, key=lambda path: int(path.parent.name))
    pg_ctl = shutil.which("pg_ctl")
    if pg_ctl is None:
        raise NoPostgres("no PostgreSQL server is installed here; install the package postgresql")
    return pathlib.Path(pg_ctl).resolve().parent


def account_of_server() -> Optional[pwd.struct_passwd]:
    """Whom the server runs as, where that is somebody else: it refuses to run as root."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise NoPostgres("a PostgreSQL server does not run as root, and there is no user postgres") from None


def run(command: list, account: Optional[pwd.struct_passwd], home: pathlib.Path) -> None:
    become = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
    # Output goes to a file: a server inherits it, and would hold a pipe open for as long as it lives.
    with open(home / "commands", "ab+") as output:
        status = subprocess.run(
            [str(word) for word in command], cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **become
        ).returncode
        if status != 0:
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
            raise NoPostgres(f"{command[0]} ended with status {status}: {said}")
