"""The job of scripts/quickstart: N tasks, each of which sleeps and returns the square of its number.

It keeps the count of finished tasks in the file named by QUICKSTART_PROGRESS, so that the script can show it.
"""

import os
import sys
import threading
import time


def square(seconds):
    def run(number):
        time.sleep(seconds)
        return number * number

    return run


def note(path, done):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(str(done))
    os.replace(path + ".new", path)


def watch(tracker, path, stop):
    done = 0  # a stage that has ended is no longer listed
    while not stop.wait(0.1):
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        done = max(done, sum(stage.numCompletedTasks for stage in stages if stage is not None))
        note(path, done)


def main():
    from pyspark import SparkContext

    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    sc = SparkContext()
    progress, stop = os.environ["QUICKSTART_PROGRESS"], threading.Event()
    watcher = threading.Thread(target=watch, args=(sc.statusTracker(), progress, stop))
    watcher.start()
    total = sc.parallelize(range(count), count).map(square(seconds)).sum()
    stop.set()
    watcher.join()
    note(progress, count)
    print(f"RESULT {total}", flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
