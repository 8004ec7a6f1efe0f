package raftnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// pair is a connection under a valve and its peer.
func pair(t *testing.T, v *Valve, names ...string) (ours, theirs net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	theirs, err = net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ours = v.Wrap(c, names...)
	t.Cleanup(func() { v.Stop(); _ = ours.Close(); _ = theirs.Close() })
	return ours, theirs
}

// silent checks that nothing, not even the end, arrives at a connection for a moment.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(make([]byte, 1))
	if n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(want))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("read %q, %v; want %q", b, err, want)
	}
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func TestAShutValveHoldsBothDirectionsAndDeliversLater(t *testing.T) {
	v := NewValve()
	ours, theirs := pair(t, v, "b")
	send(t, ours, "one")
	expect(t, theirs, "one")
	v.Shut("b")
	send(t, ours, "two")
	send(t, ours, "three")
	send(t, theirs, "four")
	silent(t, theirs)
	silent(t, ours)
	v.Open()
	expect(t, theirs, "twothree")
	expect(t, ours, "four")
	send(t, ours, "five")
	expect(t, theirs, "five")
}

func TestAValveIsShutForThoseThatAreMeant(t *testing.T) {
	v := NewValve()
	b, peerOfB := pair(t, v, "b")
	c, peerOfC := pair(t, v, "c")
	v.Shut("b")
	send(t, c, "x")
	expect(t, peerOfC, "x")
	send(t, b, "x")
	silent(t, peerOfB)
	v.Shut()
	send(t, c, "y")
	silent(t, peerOfC)
}

// A peer behind a valve does not learn of a closed connection before it opens.
func TestACloseBehindAShutValveIsNotSeen(t *testing.T) {
	v := NewValve()
	ours, theirs := pair(t, v, "b")
	v.Shut("b")
	woken := make(chan error, 1)
	go func() { _, err := ours.Read(make([]byte, 1)); woken <- err }()
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-woken; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the reader of a closed connection got %v", err)
	}
	silent(t, theirs)
	v.Open()
	if _, err := theirs.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("after the opening the peer read %v, want EOF", err)
	}
}

// A read that was under way when the valve was shut delivers nothing before it opens.
func TestAReadUnderWayIsHeldBack(t *testing.T) {
	v := NewValve()
	ours, theirs := pair(t, v, "b")
	if err := ours.SetReadDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() { n, _ := ours.Read(make([]byte, 8)); got <- n }()
	time.Sleep(20 * time.Millisecond)
	v.Shut("b")
	send(t, theirs, "late")
	if n := <-got; n != 0 {
		t.Fatalf("%d bytes came through a shut valve", n)
	}
	v.Open()
	expect(t, ours, "late")
}

func TestADialThroughAShutValveGetsNoAnswer(t *testing.T) {
	v := NewValve()
	v.Shut("127.0.0.1:9")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, _, err := Dial(ctx, "127.0.0.1:9", Hello{Kind: KindWatch}, Faults{Valve: v})
	if !errors.Is(err, context.DeadlineExceeded) || IsRefusedDial(err) {
		t.Errorf("got %v, want a time-out", err)
	}
}

func TestAWriterWaitsBehindAFullBufferUntilItsDeadline(t *testing.T) {
	v := NewValve()
	ours, _ := pair(t, v, "b")
	v.Shut("b")
	if err := ours.SetWriteDeadline(time.Now().Add(30 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, maxHeld)
	if n, err := ours.Write(block); n != maxHeld || err != nil {
		t.Fatalf("the first block: %d, %v", n, err)
	}
	if _, err := ours.Write(block); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the second block: %v", err)
	}
}
