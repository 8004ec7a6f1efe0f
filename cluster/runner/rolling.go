package runner

import "time"

// Rolling is spark.executor.logs.rolling.*, parsed: exactly one of Interval and MaxSize is not 0.
type Rolling struct {
	// Interval rolls by time: files are cut at multiples of it since 1970 UTC, as Spark's are.
	Interval time.Duration
	// Suffix is the time layout (package time's notation) of rolled names, in the local zone.
	Suffix string
	// MaxSize rolls before a write that would make the active file longer than this many bytes.
	MaxSize int64
	// MaxRetained is how many rolled files are kept; 0 or less keeps all.
	MaxRetained int
	// Compress makes rolled files .gz.
	Compress bool
}
