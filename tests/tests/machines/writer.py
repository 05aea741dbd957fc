"""The job of the real-process trials: it writes from its first moment to its last, and leaves evidence of both.

    writer.py HOME SECONDS [WAY...]

Into HOME/results.db goes a row every PAUSE, in a transaction that shows its papers to the guard (`matins guard sqlite`)
first. Into HOME/diary goes a line for each of these tries, accepted or refused, unguarded and stamped with the clock
since boot: whoever writes there is alive. A writer never stops because it was refused. What it is told by
WAY makes it worse:

    stubborn   ignores SIGTERM
    daemon     leaves a process of a session of its own behind, which writes on until it is killed
    talk       prints a line for each of its tries, as fast as it makes them
    hidden     the same as daemon, and that process has nothing of the attempt left in its environment
"""

import os
import signal
import sqlite3
import sys
import time

PAUSE = 0.02
# A daemon that nobody kills ends by itself, so that a failed trial leaves nothing for ever.
DAEMON_SECONDS = 420

RESULTS = """
CREATE TABLE results (
    id INTEGER PRIMARY KEY AUTOINCREMENT, job TEXT NOT NULL, fire_time TEXT NOT NULL, shard INTEGER NOT NULL,
    token INTEGER NOT NULL, fence INTEGER NOT NULL, pid INTEGER NOT NULL, boot_ms INTEGER NOT NULL,
    sequence INTEGER NOT NULL, what TEXT NOT NULL
);
"""


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


def main():
    home, seconds, *ways = sys.argv[1:]
    if "as" in ways:
        who = ways[ways.index("as") + 1 :]
    else:
        # Under `overlap: allow` there is no fence: 0 to the diary, null to the guard.
        who = [os.environ.get(f"MATINS_{name}", "0") for name in ("JOB", "FIRE_TIME", "SHARD", "TOKEN", "FENCE", "SHARDS")]
    if "stubborn" in ways:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for way in ("daemon", "hidden"):
        if way in ways:
            leave_daemon(home, who, os.environ if way == "daemon" else {})
    return Writer(home, who, talks="talk" in ways).write_for(float(seconds))


def leave_daemon(home, who, environment):
    """Forks twice, so that its parent is gone, and begins anew as another program."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            arguments = [home, str(DAEMON_SECONDS), "stubborn", "as", *who]
            os.execve(sys.executable, [sys.executable, "-I", "-S", __file__, *arguments], environment)
        os._exit(0)
    os.wait()


class Writer:
    def __init__(self, home, who, talks):
        self.talks = talks
        job, fire_time, *numbers = who
        *numbers, self.shards = (int(number) for number in numbers)
        self.who = (job, fire_time, *numbers)
        self.sequence = 0
        self.diary = os.open(os.path.join(home, "diary"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self.note("begins")
        self.results = sqlite3.connect(os.path.join(home, "results.db"), timeout=20, isolation_level=None)
        self.results.execute("PRAGMA synchronous = OFF")

    def write_for(self, seconds):
        until = boot_ms() + seconds * 1000
        said = "failed"
        while said.startswith("failed") and boot_ms() < until:
            said = self.write("claim", "matins_claim")
            self.note(said)
        while boot_ms() < until:
            self.note(self.write("row", "matins_guard"))
            time.sleep(PAUSE)
        said = self.write("done", "matins_done", self.shards)
        self.note("done" if said == "accepted" else said)
        return 0 if said == "accepted" else 75

    def note(self, word):
        """One write of one line: no other process's line can come between."""
        who = " ".join(map(str, self.who))
        line = f"{boot_ms()} {who} {os.getpid()} {self.sequence} {word}\n"
        os.write(self.diary, line.encode())
        if self.talks:
            print(line, end="", flush=True)

    def write(self, what, guard, *shards):
        """One transaction that shows its papers before it writes, as every job's should."""
        self.sequence += 1
        job, fire_time, shard, token, fence = self.who
        papers = (job, fire_time, shard, *shards, token, fence or None)
        row = (*self.who, os.getpid(), boot_ms(), self.sequence, what)
        try:
            self.results.execute("BEGIN IMMEDIATE")
            self.results.execute(f"INSERT INTO {guard} VALUES ({', '.join('?' * len(papers))})", papers)
            self.results.execute("INSERT INTO results VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            self.results.execute("COMMIT")
            return "accepted"
        except sqlite3.Error as error:
            if self.results.in_transaction:
                self.results.execute("ROLLBACK")
            return "refused" if str(error).startswith("matins: ") else f"failed:{error}".replace(" ", "-")


def create(home):
    """The tables, before anybody writes; the guard's come on standard input."""
    with sqlite3.connect(os.path.join(home, "results.db")) as results:
        results.execute("PRAGMA journal_mode = WAL")
        results.executescript(sys.stdin.read() + RESULTS)


if __name__ == "__main__":
    if sys.argv[1] == "create":
        create(sys.argv[2])
    else:
        sys.exit(main())
