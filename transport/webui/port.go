package webui

import (
	"errors"
	"syscall"
)

// walkPort gives the port tried after offset failures; numbers above 65535 continue at 1024.
func walkPort(port, offset int) int {
	if port+offset <= 65535 {
		return port + offset
	}
	return (port+offset-1024)%(65536-1024) + 1024
}

// isAddrInUse tells a busy port, which is worth trying the next one, from any other failure.
func isAddrInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
