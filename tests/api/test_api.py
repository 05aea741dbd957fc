"""The API of a real Matins against its own description, by schemathesis.

Needs `matins` (target/release/matins, or MATINS_BIN) and `schemathesis` (pip). Whatever is sent, no
answer is a 500, none has a status or a form that the document does not name.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MATINS = Path(os.environ.get("MATINS_BIN", ROOT / "target/release/matins"))
# Seconds until a Matins is up and has fired; requests for each operation.
PATIENCE = 60
EXAMPLES = int(os.environ.get("MATINS_API_EXAMPLES", "15"))

JOBS = """
name: demo/fine
purpose: Ends well.
owner: tester
repeatable: { safe: true, how: it does nothing }
schedule: { cron: "@every 2s", timezone: Etc/UTC }
misfire: { policy: run_now }
overlap: queue
expected_duration: 1s
timeout: 1m
shards: 2
run: { exec: ["/bin/echo", "{shard}"] }
---
name: demo/bad
purpose: Fails, and may not be repeated.
owner: tester
repeatable: { safe: false }
schedule: { cron: "@every 2s", timezone: Etc/UTC }
misfire: { policy: run_now }
overlap: forbid
expected_duration: 1s
timeout: 1m
retry: { at_most: 0 }
run: { exec: ["/bin/false"] }
---
name: demo/long
purpose: Runs for as long as anybody looks.
owner: tester
repeatable: { safe: false }
schedule: { cron: "@every 2s", timezone: Etc/UTC }
misfire: { policy: run_now }
overlap: forbid
expected_duration: 1h
timeout: 2h
run: { exec: ["/bin/sleep", "3600"] }
"""


# What lies on a host is not to be had while that host is away, as it is for good when it has been revoked
# in the course of this: 503 says so, and is no fault of the server.
SETTINGS = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "503"]
"""


def tool() -> str:
    """Where schemathesis is; without it there is nothing to test, but in CI."""
    found = shutil.which(os.environ.get("SCHEMATHESIS", "schemathesis"))
    if found is None:
        why = "schemathesis is not installed (pip install schemathesis)"
        if os.environ.get("CI"):
            raise AssertionError(why)
        raise unittest.SkipTest(why)
    return found


class TheApi(unittest.TestCase):
    def setUp(self) -> None:
        self.schemathesis = tool()
        self.directory = Path(self.enterContext(tempfile.TemporaryDirectory()))
        jobs = self.directory / "jobs"
        jobs.mkdir()
        (jobs / "jobs.yaml").write_text(JOBS, encoding="utf-8")
        (self.directory / "schemathesis.toml").write_text(SETTINGS, encoding="utf-8")
        data = self.directory / "data"
        log = self.enterContext((self.directory / "log").open("w"))
        self.matins = subprocess.Popen(
            [MATINS, "dev", "--jobs", jobs, "--data", data], stdout=log, stderr=log
        )
        self.addCleanup(self.matins.wait, PATIENCE)
        self.addCleanup(self.matins.terminate)
        self.api = self.wait_for(lambda: self.read_api(data / "coordinator/api.json"))
        self.wait_for(lambda: "fired" in (self.directory / "log").read_text(encoding="utf-8"))

    def read_api(self, file: Path) -> dict[str, str] | None:
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def wait_for(self, look):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := look():
                return found
            self.assertIsNone(self.matins.poll(), "matins dev has ended")
            time.sleep(0.1)
        self.fail("waited too long for a Matins")

    def test_answers_as_it_is_described(self) -> None:
        run = subprocess.run(
            [
                self.schemathesis,
                "run",
                f"{self.api['url']}/api/v1/openapi.json",
                "--header",
                f"Authorization: Bearer {self.api['token']}",
                "--phases=coverage,fuzzing",
                "--checks=all",
                # A manifest and a cursor are text of which no schema says when they are good.
                "--exclude-checks=positive_data_acceptance",
                f"--max-examples={EXAMPLES}",
                "--no-color",
            ],
            cwd=self.directory,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIsNone(self.matins.poll(), "matins dev has ended")


if __name__ == "__main__":
    unittest.main()
