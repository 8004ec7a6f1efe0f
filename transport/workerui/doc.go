// Package workerui is the HTTP side of a worker: Spark's worker page, /json/, the log pages of executors and drivers, and
// metrics.
//
// It decides nothing and changes nothing. What it shows comes from a Backend as plain values, and logs come from the files
// below the work directory. Nothing outside that directory is ever opened: the ids of a request are single names, no
// symbolic link is followed, and only regular files are read (Spark: worker/ui/LogPage.scala checks the normalised path
// alone). No log is read whole into memory; a part of at most 1 MiB is, and a download is streamed.
//
// Every link of these pages is relative, so that they work at any path of a proxy in front (spark.ui.reverseProxy) without
// knowing it. A Server may be used from any number of goroutines.
package workerui
