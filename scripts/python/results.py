"""Writes docs/results/<time>-<commit>.json from the output of `go test -v`: what ran, on which commit, how long it took.

Usage: results.py LOG BEGAN
"""

import json
import os
import pathlib
import platform
import re
import subprocess
import sys


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(log, began):
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    outcomes = re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)", text, re.MULTILINE)
    if not outcomes:
        print(f"no test outcome in {log}: no result file", file=sys.stderr)
        return 1
    commit = run("git", "rev-parse", "HEAD")
    result = {
        "commit": commit,
        "uncommitted_changes": run("git", "status", "--porcelain") != "",
        "began": began,
        "machine": {"cpus": os.cpu_count(), "system": f"{platform.system()} {platform.release()}", "go": run("go", "env", "GOVERSION")},
        "tests": [{"test": name, "result": outcome, "seconds": float(seconds)} for outcome, name, seconds in outcomes],
    }
    directory = pathlib.Path("docs/results")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{began.replace(':', '')}-{commit[:12]}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
