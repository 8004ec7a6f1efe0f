//go:build !linux

package sparkrpc

// Only on Linux do idle connections wait without a goroutine.

type idlers struct{}

func (*idlers) stop() {}

type idler struct{}

func (*Conn) rest() bool { return false }

func (*Endpoint) wakeLocked(*Conn) {}
