package sparkmsg

import (
	"bytes"
	"strings"
	"testing"
)

// formMessages are messages that have forms, with contents that could upset them.
func formMessages(t *testing.T) []Message {
	var out []Message
	texts := []string{"", "worker-1", "10.0.0.1:7077", "é\x00\U0001F600", strings.Repeat("x", 300), strings.Repeat("long", 20_000),
		":[l};l}Z<}Zk=Zk|"} // the marks themselves
	for i, s := range texts {
		n, other := int32(i*1000-1), texts[(i+1)%len(texts)]
		out = append(out,
			&ExecutorAdded{ID: n, WorkerID: s, HostPort: other, Cores: 1, Memory: mark1}, &ExecutorAdded{ID: n, WorkerID: s, HostPort: s},
			&KillExecutor{MasterURL: s, AppID: other, ExecID: n}, &ApplicationFinished{ID: s}, &WorkerRemoved{ID: s, Host: other, Message: s},
			&CheckExistence{Name: s},
			&ExecutorUpdated{ID: n, State: ExecutorRunning},
			&ExecutorUpdated{ID: n, State: ExecutorExited, Message: &s, ExitStatus: &n, WorkerHost: &other},
			&ExecutorUpdated{ID: mark1, State: ExecutorLost, Message: &s},
			&RegisteredWorker{Master: EndpointRef{Name: "Master", Address: &Address{Host: "m", Port: n & 0xFFFF}}, MasterWebUIURL: s,
				MasterAddress: Address{Host: other, Port: 7077}, Duplicate: i%2 == 0},
		)
	}
	for _, c := range captures(t) {
		d, err := Decode(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := d.Msg.(*LaunchExecutor); ok {
			again := *m
			again.ExecID, again.Cores, again.Memory, again.RPID = 12345, mark2, mark3, 7
			renamed := *m
			renamed.AppID = ":[l};l}Z<}Zk=Zk|"
			out = append(out, m, &again, &renamed)
		}
	}
	return out
}

// TestFormsGiveTheBytesOfTheGraph: a message is the same bytes whether its form is made, filled in, or left out.
func TestFormsGiveTheBytesOfTheGraph(t *testing.T) {
	filled := 0
	for _, msg := range formMessages(t) {
		for fam := FamilyUnknown + 1; fam < familyEnd; fam++ {
			want, err := encodeGraph(nil, msg, fam)
			if err != nil {
				t.Fatalf("%s for %s: %v", msg.MessageName(), fam, err)
			}
			for range 2 {
				got, err := Append([]byte("before"), msg, fam)
				if err != nil {
					t.Fatal(err)
				}
				if string(got[:6]) != "before" || !bytes.Equal(got[6:], want) {
					t.Fatalf("%s for %s: first difference at %d", msg.MessageName(), fam, firstDifference(got[6:], want))
				}
				if _, ok := appendForm(nil, msg, fam); ok {
					filled++
				}
			}
		}
	}
	if filled < 500 {
		t.Errorf("only %d messages were filled into forms", filled)
	}
}

// TestFormsAreBounded: peers choose some of the texts.
func TestFormsAreBounded(t *testing.T) {
	var f forms[int, []byte]
	for i := range 10 * maxForms {
		f.put(i, nil)
		if len(f.m) > maxForms {
			t.Fatalf("%d forms", len(f.m))
		}
	}
}
