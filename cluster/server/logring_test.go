package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// A master logs some lines for each executor that it launches: keeping one must not cost what all that are kept do.
func TestKeptLogLinesAreTheLastAndCheap(t *testing.T) {
	r := newLogRing(hclog.NewNullLogger())
	const n = 200_000
	moves, at := 0, (*string)(nil)
	for i := range n {
		fmt.Fprintf(r, "line %d %s\n", i, strings.Repeat("x", i%97))
		if last := &r.lines[:cap(r.lines)][cap(r.lines)-1]; last != at {
			moves, at = moves+1, last
		}
	}
	text := strings.Join(r.lines, "")
	if len(text) > logRingBytes || len(text) < logRingBytes-maxRingLine || r.bytes != len(text) {
		t.Errorf("%d bytes are kept, %d counted", len(text), r.bytes)
	}
	if lines := strings.Split(text, "\n"); !strings.HasPrefix(lines[len(lines)-2], fmt.Sprintf("line %d ", n-1)) {
		t.Errorf("the last line is %q", lines[len(lines)-2])
	}
	if moves > n/500 {
		t.Errorf("the lines were copied %d times for %d lines", moves, n)
	}
	if cap(r.lines) > 8*len(r.lines) {
		t.Errorf("room for %d lines, %d are kept", cap(r.lines), len(r.lines))
	}
}
