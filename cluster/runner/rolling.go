package runner

import (
	"fmt"
	"strconv"
	"time"
)

// Spark's least values (RollingPolicy.scala); smaller ones are raised to them.
const (
	minRollInterval = time.Minute
	minRollSize     = 81920
)

// Rolling is spark.executor.logs.rolling.*, parsed: exactly one of Interval and MaxSize is not 0.
type Rolling struct {
	// Interval rolls by time: files are cut at multiples of it since 1970 UTC, as Spark's are.
	Interval time.Duration
	// Layout is the time (in package time's notation, local zone) at the end of rolled names: "--2006-01-02". With MaxSize "--"
	// and the milliseconds with four digits follow.
	Layout string
	// MaxSize rolls before a write that would make the output since the last roll longer than this many bytes.
	MaxSize int64
	// MaxRetained is how many rolled files are kept; 0 or less keeps all.
	MaxRetained int
	// Compress makes rolled files .gz.
	Compress bool
}

// ParseRolling reads spark.executor.logs.rolling.strategy, .time.interval, .maxSize, .maxRetainedFiles and
// .enableCompression as Spark does (FileAppender.scala): nil without a strategy, nil with a warning for values that Spark
// takes for no rolling, and a warning beside the result for values that it raises.
func ParseRolling(strategy, interval, maxSize string, maxRetained int, compress bool) (rolling *Rolling, warning string) {
	r := &Rolling{MaxRetained: maxRetained, Compress: compress}
	switch strategy {
	case "":
		return nil, ""
	case "time":
		warning = r.byTime(interval)
	case "size":
		warning = r.bySize(maxSize)
	default:
		return nil, fmt.Sprintf("spark.executor.logs.rolling.strategy %q is neither time nor size: logs are not rolled", strategy)
	}
	if r.Layout == "" {
		return nil, warning
	}
	return r, warning
}

func (r *Rolling) byTime(interval string) (warning string) {
	switch interval {
	case "daily":
		r.Interval, r.Layout = 24*time.Hour, "--2006-01-02"
		return ""
	case "hourly":
		r.Interval, r.Layout = time.Hour, "--2006-01-02--15"
		return ""
	case "minutely":
		r.Interval, r.Layout = time.Minute, "--2006-01-02--15-04"
		return ""
	}
	seconds, err := strconv.ParseInt(interval, 10, 32)
	if err != nil {
		return fmt.Sprintf("spark.executor.logs.rolling.time.interval %q is not daily, hourly, minutely or a number of seconds: logs are not rolled", interval)
	}
	r.Interval, r.Layout = time.Duration(seconds)*time.Second, "--2006-01-02--15-04-05"
	if r.Interval < minRollInterval {
		r.Interval = minRollInterval
		return fmt.Sprintf("spark.executor.logs.rolling.time.interval %q is raised to %d seconds", interval, int(minRollInterval.Seconds()))
	}
	return ""
}

func (r *Rolling) bySize(maxSize string) (warning string) {
	size, err := strconv.ParseInt(maxSize, 10, 64)
	if err != nil {
		return fmt.Sprintf("spark.executor.logs.rolling.maxSize %q is not a number of bytes: logs are not rolled", maxSize)
	}
	r.MaxSize, r.Layout = size, "--2006-01-02--15-04-05"
	if size < minRollSize {
		r.MaxSize = minRollSize
		return fmt.Sprintf("spark.executor.logs.rolling.maxSize %q is raised to %d bytes", maxSize, minRollSize)
	}
	return ""
}

// suffix is the end of a rolled file's name.
func (r *Rolling) suffix(now time.Time) string {
	now = now.Local()
	text := now.Format(r.Layout)
	if r.MaxSize > 0 {
		text += fmt.Sprintf("--%04d", now.Nanosecond()/int(time.Millisecond)) // SimpleDateFormat's SSSS pads milliseconds to four
	}
	return text
}

// after is the next time to roll, in milliseconds as in Spark: the next multiple of Interval, or now if it is one.
func (r *Rolling) after(now time.Time) int64 {
	step := r.Interval.Milliseconds()
	ms := now.UnixMilli()
	return (ms + step - 1) / step * step
}
