"""Small helpers of the scripts: free ports, who leads, waiting. Standard library only; exit code 1 means "no"."""

import json
import os
import signal
import socket
import sys
import time
import urllib.error
import urllib.request

# Straight to the loopback address, whatever proxy the environment names.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def get(url, timeout=1.0):
    """Returns status code and body; code 0 when there is no answer."""
    try:
        with OPENER.open(url, timeout=timeout) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, b""
    except OSError:
        return 0, b""


def leader_of(endpoints):
    for number, endpoint in enumerate(endpoints):
        if get(endpoint + "/leader")[0] == 200:
            return number
    return None


def ports(base, count):
    """Prints `count` free ports of 127.0.0.1 out of the twenty from `base` on."""
    free = []
    for port in range(int(base), int(base) + 20):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            free.append(port)
    if len(free) < int(count):
        return 1
    print("\n".join(map(str, free[: int(count)])))
    return 0


def leader(endpoints, seconds="0"):
    """Prints the position (0, 1, ...) of the leading master; waits up to `seconds` for one."""
    deadline = time.monotonic() + float(seconds)
    while True:
        number = leader_of(endpoints.split(","))
        if number is not None:
            print(number)
            return 0
        if time.monotonic() >= deadline:
            return 1
        time.sleep(0.02)


def workers(endpoints, count, seconds):
    """Waits until the leader lists `count` ALIVE workers."""
    deadline = time.monotonic() + float(seconds)
    while time.monotonic() < deadline:
        number = leader_of(endpoints.split(","))
        if number is not None:
            code, body = get(endpoints.split(",")[number] + "/json/")
            if code == 200 and json.loads(body)["aliveworkers"] >= int(count):
                return 0
        time.sleep(0.1)
    return 1


def kill(endpoints, pid, seconds):
    """Kills a master with SIGKILL and prints how long nobody led, and the position of the next leader."""
    endpoints = endpoints.split(",")
    began = time.monotonic()
    os.kill(int(pid), signal.SIGKILL)
    while time.monotonic() - began < float(seconds):
        number = leader_of(endpoints)
        if number is not None:
            print(f"{time.monotonic() - began:.3f} {number}")
            return 0
        time.sleep(0.002)
    return 1


def job(endpoints):
    """Prints the newest application as the leader lists it: id, state, cores."""
    number = leader_of(endpoints.split(","))
    if number is None:
        return 1
    code, body = get(endpoints.split(",")[number] + "/json/")
    if code != 200:
        return 1
    state = json.loads(body)
    for app in state["activeapps"] + state["completedapps"]:
        print(app["id"], app["state"], app["cores"])
    return 0


COMMANDS = {command.__name__: command for command in (ports, leader, workers, kill, job)}

if __name__ == "__main__":
    sys.exit(COMMANDS[sys.argv[1]](*sys.argv[2:]))
