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


def watch(tracker, path, stop):
    while not stop.wait(0.1):
        done = sum(
            info.numCompletedTasks
            for info in map(tracker.getStageInfo, tracker.getActiveStageIds())
            if info is not None
        )
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(str(done))
        os.replace(path + ".new", path)


def main():
    from pyspark import SparkContext

    count, seconds = int(sys.argv[1]), float(sys.argv[2])
    sc = SparkContext()
    stop = threading.Event()
    watcher = threading.Thread(target=watch, args=(sc.statusTracker(), os.environ["QUICKSTART_PROGRESS"], stop))
    watcher.start()
    total = sc.parallelize(range(count), count).map(square(seconds)).sum()
    stop.set()
    watcher.join()
    print(f"RESULT {total}", flush=True)
    sc.stop()


if __name__ == "__main__":
    main()
