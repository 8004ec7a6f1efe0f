//go:build !linux

package sparkrpc

import (
	"errors"
	"net"
	"syscall"
)

func newRawSocket(syscall.Conn) socket { return nil }

func newIdleReader(net.Conn) idleReader { return nil }

// tuneSocket sets keep-alive, so that half-open connections end.
func tuneSocket(nc net.Conn, l Limits) error {
	tcp := underlyingTCP(nc)
	if tcp == nil {
		return nil
	}
	return errors.Join(tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: l.KeepAliveIdle, Interval: l.KeepAliveInterval, Count: l.KeepAliveCount,
	}), tcp.SetNoDelay(true))
}
