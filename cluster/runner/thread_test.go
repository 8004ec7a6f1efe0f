package runner

import "runtime"

// lockedForever ties the calling goroutine to its thread; the thread ends when the goroutine does.
func lockedForever() { runtime.LockOSThread() }
