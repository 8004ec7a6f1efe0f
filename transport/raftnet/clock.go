package raftnet

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// BootTime reads CLOCK_BOOTTIME, which, unlike the monotonic clock behind time.Now, goes on while the machine sleeps,
// and like it, while the process is stopped. Only differences count.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic(fmt.Sprintf("CLOCK_BOOTTIME cannot be read: %v", err)) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}
