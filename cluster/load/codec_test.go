package load

import (
	"reflect"
	"testing"
	"time"

	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

var families = []sparkmsg.Family{sparkmsg.FamilyA, sparkmsg.FamilyB, sparkmsg.FamilyC, sparkmsg.FamilyD, sparkmsg.FamilyE}

// What is patched reads as if it had been encoded for the one executor.
func TestPatchedReportsReadAsEncoded(t *testing.T) {
	for _, fam := range families {
		c, err := newCodec(fam)
		if err != nil {
			t.Fatal(err)
		}
		for _, state := range []sparkmsg.ExecutorState{sparkmsg.ExecutorRunning, sparkmsg.ExecutorExited, sparkmsg.ExecutorKilled} {
			for _, id := range []int32{0, 7, 1 << 30} {
				content, err := c.report("app-20200101000000-0001", id, state)
				if err != nil {
					t.Fatal(err)
				}
				d, err := sparkmsg.Decode(content)
				if err != nil {
					t.Fatal(err)
				}
				m, ok := d.Msg.(*sparkmsg.ExecutorStateChanged)
				if !ok || m.ExecID != id || m.State != state || m.AppID != "app-20200101000000-0001" || (m.ExitStatus != nil) != state.Finished() {
					t.Errorf("family %s: %+v", fam, d.Msg)
				}
			}
		}
	}
}

// Launches that are recognised by their bytes give what decoding gives, also when the next one is of another
// application or has other numbers.
func TestLaunchesAreReadTheSameWithAndWithoutDecoding(t *testing.T) {
	for _, fam := range families {
		c, err := newCodec(fam)
		if err != nil {
			t.Fatal(err)
		}
		for round := range 3 {
			for _, app := range []string{"app-20200101000000-0001", "app-20200101000000-0002"} {
				want := launch{app: app, masterURL: "spark://m:7077", id: int32(40 + round), cores: int32(1 + round), memory: 512}
				content, err := sparkmsg.Encode(&sparkmsg.LaunchExecutor{MasterURL: want.masterURL, AppID: app, ExecID: want.id, Cores: want.cores,
					Memory: want.memory, AppDesc: &sparkmsg.ApplicationDescription{Name: app}}, fam)
				if err != nil {
					t.Fatal(err)
				}
				got, err := c.launch(content)
				if err != nil || got != want {
					t.Errorf("family %s: %+v, %v; want %+v", fam, got, err, want)
				}
			}
		}
		if fam != sparkmsg.FamilyA && len(c.tails) != 2 {
			t.Errorf("family %s: %d launches were learnt, want 2", fam, len(c.tails))
		}
	}
}

func TestMessageNamesAreReadOffTheStream(t *testing.T) {
	content, err := sparkmsg.Encode(&sparkmsg.ApplicationFinished{ID: "x"}, sparkmsg.FamilyE)
	if err != nil {
		t.Fatal(err)
	}
	if name := messageName(content); name != "ApplicationFinished" {
		t.Errorf("name %q", name)
	}
	for n := range content[:12] {
		if name := messageName(content[:n]); name != "" {
			t.Errorf("name of %d bytes: %q", n, name)
		}
	}
}

// Frames may come in any pieces; a length that cannot be ends the connection.
func TestFramesAreCutFromAnyPieces(t *testing.T) {
	m := newFakeMaster(t, sparkmsg.FamilyE)
	h, err := newHub(t.Context(), func() Config { c := testConfig(m); c.setDefaults(); return c }(), sparkmsg.FamilyE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.leave(); err != nil {
			t.Error(err)
		}
	}()
	c := newConn(h.workers[0].peer, nil)
	var got int
	c.asks = map[int64]func([]byte, error){}
	var stream []byte
	for id := int64(1); id <= 3; id++ {
		c.asks[id] = func([]byte, error) { got++ }
		stream = frame.Append(stream, frame.Frame{Type: frame.RPCResponse, RequestID: id, Body: h.yes})
	}
	var rest []byte
	for _, b := range stream {
		if rest, err = c.frames(append(rest, b)); err != nil {
			t.Fatal(err)
		}
	}
	if got != 3 || len(rest) != 0 {
		t.Errorf("%d answers, %d bytes left", got, len(rest))
	}
	if _, err := c.frames(make([]byte, 20)); err == nil {
		t.Error("a frame of no length was accepted")
	}
}

func TestPercentilesOfKnownSamples(t *testing.T) {
	var samples []time.Duration
	for i := 100; i >= 1; i-- {
		samples = append(samples, time.Duration(i)*time.Millisecond)
	}
	if p := percentiles(samples); !reflect.DeepEqual(p, &Percentiles{P50: 50, P90: 90, P99: 99, Max: 100}) {
		t.Errorf("%+v", p)
	}
	if p := percentiles([]time.Duration{time.Second}); p.P50 != 1000 || p.Max != 1000 {
		t.Errorf("%+v", p)
	}
	if percentiles(nil) != nil {
		t.Error("percentiles of nothing")
	}
}

func TestProcessTimesAreReadBehindAnyName(t *testing.T) {
	u, err := parseStat([]byte("42 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0"))
	if err != nil || u.CPUSeconds != 2 {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []string{"", "42 (x) S 1", "42 x"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
