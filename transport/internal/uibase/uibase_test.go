package uibase

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestG61_OneAddressLeavesPlaces: one address holds its share of the list places at most, waits in its own queue, and
// leaves the rest to others.
func TestG61_OneAddressLeavesPlaces(t *testing.T) {
	p := NewPlaces(8, 3)
	ctx := context.Background()
	for range 3 {
		if !p.Take(ctx, "a", 0) {
			t.Fatal("a free place is refused")
		}
	}
	if p.Take(ctx, "a", time.Millisecond) {
		t.Error("an address got more than its share")
	}
	waiting := make(chan bool)
	go func() { waiting <- p.Take(ctx, "a", time.Minute) }()
	for range 5 {
		if !p.Take(ctx, fmt.Sprint("b", p.Held()), 0) {
			t.Error("another address is refused")
		}
	}
	if p.Take(ctx, "c", 0) {
		t.Error("more places than there are")
	}
	p.Give("a") // the one of "a" who waits gets it
	if !<-waiting || p.Held() != 8 {
		t.Errorf("%d held", p.Held())
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if p.Take(gone, "d", time.Minute) {
		t.Error("a caller who is gone got a place")
	}
	for range 3 {
		p.Give("a")
	}
	for i := range 5 {
		p.Give(fmt.Sprint("b", i+3))
	}
	if p.Held() != 0 || len(p.byIP) != 0 {
		t.Errorf("%d held, %v", p.Held(), p.byIP)
	}
}

// deadlineRecorder keeps the deadlines that are set on its connection.
type deadlineRecorder struct {
	httptest.ResponseRecorder
	deadlines []time.Time
}

// SetWriteDeadline is found by http.ResponseController.
func (d *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	d.deadlines = append(d.deadlines, t)
	return nil
}

// TestPacedWriterKeepsTheWholeDeadline: each chunk has a deadline, and none is beyond that of the answer.
func TestPacedWriterKeepsTheWholeDeadline(t *testing.T) {
	w := &deadlineRecorder{ResponseRecorder: *httptest.NewRecorder()}
	p := NewPacedWriter(w, time.Second)
	latest := time.Now().Add(time.Second)
	if n, err := p.Write(make([]byte, 2*ChunkBytes+1)); n != 2*ChunkBytes+1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if len(w.deadlines) != 3 || w.deadlines[2].After(latest) {
		t.Errorf("deadlines beyond the end of the answer: %v", w.deadlines)
	}
}

// TestHeadersNonce: each answer has a nonce of its own, which its page can ask for.
func TestHeadersNonce(t *testing.T) {
	seen := map[string]bool{}
	for range 3 {
		w := httptest.NewRecorder()
		r := Headers{ContentSecurityPolicy: true}.Set(w, httptest.NewRequest(http.MethodGet, "/", nil))
		n := NonceOf(r.Context())
		if len(n) != 32 || seen[n] {
			t.Errorf("nonce %q", n)
		}
		seen[n] = true
	}
	if NonceOf(context.Background()) != "" {
		t.Error("a nonce outside a request")
	}
}
