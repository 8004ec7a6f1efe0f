"""Writes docs/results/<time>-<commit>.json from outputs of `go test -v`: what ran, with which Spark, on which commit, how
long it took.

Usage: results.py BEGAN STAGE=LOG...
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


def outcomes(stage, log):
    text = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")
    for outcome, name, seconds in re.findall(r"^ *--- (PASS|FAIL|SKIP): (\S+) \(([0-9.]+)s\)", text, re.MULTILINE):
        test = {"stage": stage, "test": name, "result": outcome, "seconds": float(seconds)}
        release = re.search(r"/([0-9]+\.[0-9]+\.[0-9]+)(/|$)", name)
        if release:
            test["release"] = release.group(1)
        yield test


def main(began, *stages):
    tests = []
    for stage in stages:
        name, log = stage.rsplit("=", 1)
        tests.extend(outcomes(name, log))
    if not tests:
        print("no test outcome: no result file", file=sys.stderr)
        return 1
    commit = run("git", "rev-parse", "HEAD")
    result = {
        "commit": commit,
        "uncommitted_changes": run("git", "status", "--porcelain") != "",
        "began": began,
        "machine": {"cpus": os.cpu_count(), "system": f"{platform.system()} {platform.release()}", "go": run("go", "env", "GOVERSION")},
        "tests": tests,
    }
    directory = pathlib.Path("docs/results")
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{began.replace(':', '')}-{commit[:12]}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
