package benchmachine

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// DiskSync measures fdatasync after a 4 KB append, as a log append costs it, in a
// directory; "" is the one for temporary files.
func DiskSync(dir string) (f Figures, err error) {
	file, err := os.CreateTemp(dir, "bench-sync-")
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 4096)
	var samples []time.Duration
	for range 300 {
		if _, err := file.Write(block); err != nil {
			return f, err
		}
		began := time.Now()
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return f, err
		}
		samples = append(samples, time.Since(began))
	}
	return Sum(samples), nil
}

// LoopbackRoundTrip measures one byte there and back over TCP.
func LoopbackRoundTrip() (f Figures, err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return f, err
	}
	echoed := make(chan error, 1)
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			echoed <- err
			return
		}
		_, err = io.Copy(conn, conn)
		echoed <- errors.Join(err, conn.Close())
	}()
	defer func() { err = errors.Join(err, ln.Close()) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return f, err
	}
	var samples []time.Duration
	one := []byte{1}
	for range 2000 {
		began := time.Now()
		if _, err := conn.Write(one); err != nil {
			return f, err
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			return f, err
		}
		samples = append(samples, time.Since(began))
	}
	if err := conn.Close(); err != nil {
		return f, err
	}
	if err := <-echoed; err != nil {
		return f, fmt.Errorf("echo: %w", err)
	}
	return Sum(samples), nil
}
