"""A PySpark application that does what the harness tells it over a TCP connection.

Arguments: host:port of the harness, path of the ledger. One JSON object per line. Commands: {"cmd": "start"} creates the
SparkContext and answers {"event": "started"}; {"cmd": "run", "first": F, "count": N, "seconds": S} runs one job of N tasks with the
ids F .. F+N-1, each S seconds long, and answers {"event": "ran", "sum": the sum of the squares of the ids};
{"cmd": "finish"} stops the context and answers {"event": "finished"}. Each task appends one line to the ledger when it
begins and one when it ends, so that a repeated task shows whatever Spark itself reports.
"""

import json
import os
import socket
import sys
import time


def task(ledger, seconds):
    def run(number):
        from pyspark import TaskContext

        context = TaskContext.get()
        # The working directory of a Python worker is <work>/<application>/<executor>.
        where = os.path.relpath(os.getcwd(), os.path.dirname(os.path.dirname(os.getcwd())))

        def note(what):
            entry = {"task": number, "what": what, "executor": where, "attempt": context.attemptNumber()}
            descriptor = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                os.write(descriptor, (json.dumps(entry) + "\n").encode())
            finally:
                os.close(descriptor)

        note("begin")
        time.sleep(seconds)
        note("end")
        return number * number

    return run


def main():
    host, port = sys.argv[1].rsplit(":", 1)
    ledger = sys.argv[2]
    control = socket.create_connection((host, int(port)))
    lines = control.makefile("r", encoding="utf-8")

    def say(**fields):
        control.sendall((json.dumps(fields) + "\n").encode())

    say(event="hello", pid=os.getpid())
    from pyspark import SparkContext

    sc = None
    for line in lines:
        command = json.loads(line)
        if command["cmd"] == "start":
            sc = SparkContext()
            say(event="started", app_id=sc.applicationId, version=sc.version)
        elif command["cmd"] == "run":
            first, count = command["first"], command["count"]
            numbers = sc.parallelize(range(first, first + count), count)
            try:
                results = numbers.map(task(ledger, command["seconds"])).collect()
                say(event="ran", sum=sum(results), count=len(results))
            except Exception as error:
                say(event="failed", message=str(error)[:2000])
        elif command["cmd"] == "finish":
            break
    if sc is not None:
        sc.stop()
    say(event="finished")
    control.close()


if __name__ == "__main__":
    sys.exit(main())
