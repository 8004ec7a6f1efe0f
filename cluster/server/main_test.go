package server

import (
	"flag"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// These tests wait much and compute little: more of them at a time than there are cores. The command line comes later.
	if err := flag.Set("test.parallel", strconv.Itoa(sideBySide)); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m,
		// hashicorp/raft #696: a transfer that is interrupted at the wrong moment leaves this goroutine behind for ever.
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leadershipTransfer"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func1"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/raft.(*Raft).leaderLoop.func2"),
	)
}
