package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"raftmaster/transport/webui"
)

// transferring makes the leader of the cluster record what it was asked.
func transferring(t *testing.T, token string) (ms []*fakeMaster, asked *[]webui.TransferRequest) {
	t.Helper()
	ms = newCluster(t)
	if token != "" {
		ms[0].token = token
		ms[0].serve(t)
		ms[0].status.Leader.WebURL = ms[0].url
	}
	asked = &[]webui.TransferRequest{}
	ms[0].transfer = func(r webui.TransferRequest) (webui.Transfer, error) {
		*asked = append(*asked, r)
		return webui.Transfer{From: webui.Leader{Address: "a:7077"}, To: webui.Leader{Address: "b:7077"}, Term: 8, DurationMillis: 12, DryRun: r.DryRun}, nil
	}
	return ms, asked
}

func changes(asked []webui.TransferRequest) int {
	n := 0
	for _, r := range asked {
		if !r.DryRun {
			n++
		}
	}
	return n
}

func TestTransfer(t *testing.T) {
	ms, asked := transferring(t, "")
	r := ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--to", "b:7077", "--yes")
	check(t, r, exitOK, "b:7077 is the leader, term 8, after 12 ms", "undo: raftctl transfer-leadership --to a:7077")
	if changes(*asked) != 1 || (*asked)[len(*asked)-1].To != "b:7077" {
		t.Errorf("%+v", *asked)
	}
}

func TestTransferDryRun(t *testing.T) {
	ms, asked := transferring(t, "")
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--dry-run"), exitOK, "would move leadership from a:7077 to b:7077", "nothing was changed")
	if changes(*asked) != 0 {
		t.Errorf("a dry run changed something: %+v", *asked)
	}
}

// Without a terminal nobody can confirm: exit code 5, and nothing happens. On one, only "y" does it.
func TestTransferNeedsConfirmation(t *testing.T) {
	ms, asked := transferring(t, "")
	e := endpoints(ms)
	check(t, ctl(t, nil, "--endpoints", e, "transfer-leadership"), exitRefused, "--yes", "--dry-run", "from a:7077 to b:7077")
	for _, answer := range []string{"\n", "n\n", "", "yep\n"} {
		check(t, ctlOn(t, terminal{interactive: true, in: strings.NewReader(answer)}, nil, "--endpoints", e, "transfer-leadership"), exitRefused, "nothing was changed")
	}
	if changes(*asked) != 0 {
		t.Errorf("changed without a yes: %+v", *asked)
	}
	for _, answer := range []string{"y\n", "YES\n"} {
		check(t, ctlOn(t, terminal{interactive: true, in: strings.NewReader(answer)}, nil, "--endpoints", e, "transfer-leadership"), exitOK, "[y/N]", "is the leader")
	}
	if changes(*asked) != 2 {
		t.Errorf("%+v", *asked)
	}
}

// TestTransferErrors: the exit code follows the code of the answer.
func TestTransferErrors(t *testing.T) {
	for code, want := range map[string]int{webui.CodeRefused: exitRefused, webui.CodeNotLeader: exitNoLeader, webui.CodeNoLeader: exitNoLeader,
		webui.CodeTimeout: exitTimeout, webui.CodeNotFound: exitError, webui.CodeInternal: exitError, webui.CodeBadRequest: exitUsage} {
		ms := newCluster(t)
		ms[0].transfer = func(webui.TransferRequest) (webui.Transfer, error) {
			return webui.Transfer{}, &webui.Error{Code: code, Message: "the reason"}
		}
		check(t, ctl(t, nil, "--endpoints", endpoints(ms), "transfer-leadership", "--yes"), want, "the reason")
	}
	ms := newCluster(t)
	release := make(chan struct{})
	ms[0].transfer = func(webui.TransferRequest) (webui.Transfer, error) {
		<-release
		return webui.Transfer{}, errors.New("too late")
	}
	check(t, ctl(t, nil, "--endpoints", endpoints(ms), "--timeout", "300ms", "transfer-leadership", "--yes"), exitTimeout, "may still happen", "raftctl leader")
	close(release)
}

func TestTransferToken(t *testing.T) {
	ms, asked := transferring(t, "s3cret")
	e := endpoints(ms)
	r := ctl(t, nil, "--endpoints", e, "transfer-leadership", "--yes")
	check(t, r, exitError, "needs the admin token", "--token-file", "RAFTCTL_TOKEN")
	check(t, ctl(t, map[string]string{"RAFTCTL_TOKEN": "wrong"}, "--endpoints", e, "transfer-leadership", "--yes"), exitError)
	if len(*asked) != 0 {
		t.Errorf("asked without the token: %+v", *asked)
	}
	check(t, ctl(t, map[string]string{"RAFTCTL_TOKEN": "s3cret"}, "--endpoints", e, "transfer-leadership", "--yes"), exitOK)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("s3cret\nsecond line\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, ctl(t, nil, "--endpoints", e, "--token-file", file, "transfer-leadership", "--yes"), exitOK)
}

func TestEventsAreJoinedByTime(t *testing.T) {
	ms := newCluster(t)
	ms[0].events = []webui.Event{{Seq: 1, TimeMillis: 1000, Kind: "leader", Message: "first"}, {Seq: 2, TimeMillis: 3000, Kind: "leader", Message: "third", Reason: "because"}}
	ms[1].events = []webui.Event{{Seq: 1, TimeMillis: 2000, Kind: "peer", Message: "second", Node: "b:7077"}}
	r := ctl(t, nil, "--endpoints", endpoints(ms), "events")
	check(t, r, exitOK, "third (because)", "b:7077")
	first, second, third := strings.Index(r.out, "first"), strings.Index(r.out, "second"), strings.Index(r.out, "third")
	if first < 0 || second < first || third < second {
		t.Errorf("not in order of time:\n%s", r.out)
	}
}

// TestEventsFollow reads the streams of several masters until it is interrupted.
func TestEventsFollow(t *testing.T) {
	ms := newCluster(t)
	ms[0].events = []webui.Event{{Seq: 1, Kind: "leader", Message: "of a"}}
	ms[1].events = []webui.Event{{Seq: 1, Kind: "peer", Message: "of b\x1b"}}
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		code := run(ctx, terminal{in: strings.NewReader(""), out: pw, err: io.Discard, lookupEnv: func(string) (string, bool) { return "", false }},
			[]string{"--endpoints", endpoints(ms[:2]), "-o", "json", "events", "--follow"})
		done <- code
		if err := pw.Close(); err != nil {
			t.Error(err)
		}
	}()
	lines := bufio.NewScanner(pr)
	got := map[string]bool{}
	for len(got) < 2 && lines.Scan() {
		var e webui.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		got[e.Message] = true
	}
	cancel()
	for lines.Scan() {
		t.Errorf("an event came twice: %s", lines.Text())
	}
	select {
	case code := <-done:
		if code != exitOK {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the interrupt did not end it")
	}
	if !got["of a"] || !got["of b\x1b"] {
		t.Errorf("%v", got)
	}
}
