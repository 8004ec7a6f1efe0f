// Package sdnotify speaks systemd's notification protocol (sd_notify(3), units of Type=notify): a process says that it is up,
// what it does, that it stops, and, with WatchdogSec=, that it is alive. The latter is said only after a check of the
// process's own loops has passed, so that a process that hangs is ended and started again.
package sdnotify
