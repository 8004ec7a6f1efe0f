package sparktest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Control is where programs under remote control connect to: the applications
// and drivers made of testdata/app.py and testdata/ControlApp.java. Every
// connection is a Session; a driver that is started again opens another.
type Control struct {
	cluster  *Cluster
	label    string
	ledger   string
	listener net.Listener
	sessions chan *Session // closed with the listener
	mu       sync.Mutex    // guards open
	open     []net.Conn
}

// Session is one run of a program under remote control. All tasks of all
// sessions of one Control write into one ledger.
type Session struct {
	PID    int    // of the program
	Dir    string // last element of its working directory: a cluster-mode driver's id; JVM programs only
	Master string // its spark.master; JVM programs only
	ID     string // of its application, known once it has started

	cluster *Cluster
	label   string
	ledger  string
	conn    net.Conn
	events  chan appEvent // closed when the program has closed its side
	gone    chan struct{} // closed then, too
	next    int           // id of the next task
}

type appEvent struct {
	Event   string `json:"event"`
	PID     int    `json:"pid"`
	Dir     string `json:"dir"`
	Master  string `json:"master"`
	AppID   string `json:"app_id"`
	Version string `json:"version"`
	UI      string `json:"ui"`
	Sum     int64  `json:"sum"`
	Count   int    `json:"count"`
	Message string `json:"message"`
}

// sessionBacklog is how many sessions of one Control may wait to be picked up: a
// driver in a crash loop opens many.
const sessionBacklog = 256

// NewControl opens a port for programs under remote control; label names them in
// messages and names their ledger.
func (c *Cluster) NewControl(label string) *Control {
	c.tb.Helper()
	ctl := &Control{cluster: c, label: label, ledger: filepath.Join(c.dir, label+".ledger"),
		sessions: make(chan *Session, sessionBacklog)}
	var err error
	if ctl.listener, err = net.Listen("tcp", net.JoinHostPort(c.host(harnessHost), "0")); err != nil {
		c.tb.Fatalf("control port: %v", err)
	}
	c.controls = append(c.controls, ctl)
	go ctl.accept()
	return ctl
}

// Address is what the program is given as the harness's address.
func (ctl *Control) Address() string { return ctl.listener.Addr().String() }

// Ledger is the file in which its tasks note when they begin and end.
func (ctl *Control) Ledger() string { return ctl.ledger }

// accept owns the sessions channel and ends when the listener does.
func (ctl *Control) accept() {
	defer close(ctl.sessions)
	for {
		conn, err := ctl.listener.Accept()
		if err != nil {
			return // close
		}
		ctl.mu.Lock()
		ctl.open = append(ctl.open, conn)
		ctl.mu.Unlock()
		s := &Session{cluster: ctl.cluster, label: ctl.label, ledger: ctl.ledger, conn: conn,
			events: make(chan appEvent, 16), gone: make(chan struct{})}
		go s.serve()
		select {
		case ctl.sessions <- s:
		default:
			_ = conn.Close() // nobody picks them up: the test must fail for want of a session, not hang
		}
	}
}

// Next waits for the next run of the program and its first word.
func (ctl *Control) Next(timeout time.Duration) *Session {
	ctl.cluster.tb.Helper()
	var s *Session
	select {
	case s = <-ctl.sessions: // nil once it is closed
	case <-time.After(timeout):
	}
	if s == nil {
		ctl.cluster.tb.Fatalf("%s has not connected within %v", ctl.label, timeout)
	}
	hello, err := s.await("hello", startTimeout)
	if err != nil {
		ctl.cluster.tb.Fatalf("%v", err)
	}
	s.PID, s.Dir, s.Master = hello.PID, hello.Dir, hello.Master
	return s
}

// None fails the test when a run is waiting to be picked up.
func (ctl *Control) None() {
	ctl.cluster.tb.Helper()
	select {
	case s := <-ctl.sessions:
		ctl.cluster.tb.Errorf("%s was started once more (%s)", ctl.label, s.conn.RemoteAddr())
	default:
	}
}

func (ctl *Control) close() {
	_ = ctl.listener.Close()
	ctl.mu.Lock()
	defer ctl.mu.Unlock()
	for _, conn := range ctl.open {
		_ = conn.Close()
	}
}

// session lets checks take an App and a driver's Session alike.
func (s *Session) session() *Session { return s }

// serve passes on what the program says. It owns the events channel and ends when
// the connection does.
func (s *Session) serve() {
	defer close(s.gone)
	defer close(s.events)
	scanner := bufio.NewScanner(s.conn)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event appEvent
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			event = appEvent{Event: "garbled", Message: err.Error()}
		}
		select {
		case s.events <- event:
		default: // the conversation is one answer to one command; more is garbage
			return
		}
	}
}

func (s *Session) send(command map[string]any) error {
	line, err := json.Marshal(command)
	if err != nil {
		return err
	}
	_, err = s.conn.Write(append(line, '\n'))
	return err
}

func (s *Session) await(want string, timeout time.Duration) (appEvent, error) {
	select {
	case event, ok := <-s.events:
		if !ok {
			return event, fmt.Errorf("%s has gone while %q was awaited", s.label, want)
		}
		if event.Event != want {
			return event, fmt.Errorf("%s said %q (%s) while %q was awaited", s.label, event.Event, event.Message, want)
		}
		return event, nil
	case <-time.After(timeout):
		return appEvent{}, fmt.Errorf("%s did not say %q within %v", s.label, want, timeout)
	}
}

// command sends the program a command that it answers with the named event.
func (s *Session) command(command map[string]any, want string, timeout time.Duration) appEvent {
	s.cluster.tb.Helper()
	s.order(command)
	event, err := s.await(want, timeout)
	if err != nil {
		s.cluster.tb.Fatalf("%v", err)
	}
	return event
}

func (s *Session) order(command map[string]any) {
	s.cluster.tb.Helper()
	if err := s.send(command); err != nil {
		s.cluster.tb.Fatalf("%s: %v", s.label, err)
	}
}

// StartContext makes the program create its SparkContext, and waits until it is
// registered as an application.
func (s *Session) StartContext() {
	s.cluster.tb.Helper()
	s.ID = s.command(map[string]any{"cmd": "start"}, "started", startTimeout).AppID
}

// Connected reports whether the program still holds its connection: whether it
// lives, paused or not.
func (s *Session) Connected() bool {
	select {
	case <-s.gone:
		return false
	default:
		return true
	}
}

// WaitGone waits until the program has ended.
func (s *Session) WaitGone() {
	s.cluster.tb.Helper()
	select {
	case <-s.gone:
	case <-time.After(startTimeout):
		s.cluster.tb.Fatalf("%s (process %d) still lives after %v", s.label, s.PID, startTimeout)
	}
}

// Exit makes a JVM program end at once with the exit code.
func (s *Session) Exit(code int) {
	s.cluster.tb.Helper()
	s.order(map[string]any{"cmd": "exit", "code": code})
	s.WaitGone()
}

// Throw makes a JVM program's main end with an exception.
func (s *Session) Throw() {
	s.cluster.tb.Helper()
	s.order(map[string]any{"cmd": "throw"})
	s.WaitGone()
}

// jobTimeout bounds one job. It must outlive the start of an executor and a
// failover on a loaded machine.
const jobTimeout = 3 * time.Minute

// Begin starts a job of count tasks of the given length; End waits for it.
func (s *Session) Begin(count int, seconds float64) {
	s.cluster.tb.Helper()
	s.begin(map[string]any{"cmd": "run", "first": s.next, "count": count, "seconds": seconds})
}

// BeginWithProfile is Begin under a resource profile of one core and that much
// memory, for example "600m"; JVM programs only.
func (s *Session) BeginWithProfile(count int, seconds float64, memory string) {
	s.cluster.tb.Helper()
	s.begin(map[string]any{"cmd": "run", "first": s.next, "count": count, "seconds": seconds, "profileMemory": memory})
}

func (s *Session) begin(command map[string]any) {
	s.cluster.tb.Helper()
	s.order(command)
	s.next += command["count"].(int)
}

// End waits for the job that Begin started and checks its sum.
func (s *Session) End(count int) {
	s.cluster.tb.Helper()
	event, err := s.await("ran", jobTimeout)
	if err != nil {
		s.cluster.tb.Fatalf("%v", err)
	}
	var want int64
	for i := s.next - count; i < s.next; i++ {
		want += int64(i) * int64(i)
	}
	if event.Sum != want || event.Count != count {
		s.cluster.tb.Fatalf("%s: %d tasks gave %d, not %d tasks and %d", s.label, event.Count, event.Sum, count, want)
	}
}

// Run is Begin and End.
func (s *Session) Run(count int, seconds float64) {
	s.cluster.tb.Helper()
	s.Begin(count, seconds)
	s.End(count)
}

// FinishProgram stops the application in order and waits until it has said so.
func (s *Session) FinishProgram() {
	s.cluster.tb.Helper()
	s.command(map[string]any{"cmd": "finish"}, "finished", startTimeout)
}

// LedgerEntry is what one task has written.
type LedgerEntry struct {
	Task     int
	What     string // begin, end
	Executor string
	Attempt  int
	GPU      []string // addresses; JVM programs only
}

// Entries reads the ledger so far.
func (s *Session) Entries() []LedgerEntry {
	s.cluster.tb.Helper()
	file, err := os.Open(s.ledger)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		s.cluster.tb.Fatalf("ledger: %v", err)
	}
	defer file.Close()
	var entries []LedgerEntry
	scanner := bufio.NewScanner(file)
	for scanner.Scan() {
		var entry LedgerEntry
		if err := json.Unmarshal(scanner.Bytes(), &entry); err != nil {
			s.cluster.tb.Fatalf("ledger of %s: %v", s.label, err)
		}
		entries = append(entries, entry)
	}
	if err := scanner.Err(); err != nil {
		s.cluster.tb.Fatalf("ledger of %s: %v", s.label, err)
	}
	return entries
}

// TaskRuns counts, by task id, how often tasks have begun and ended, and names the
// executors that ran each.
func (s *Session) TaskRuns() (begun, ended map[int]int, executors map[int][]string) {
	s.cluster.tb.Helper()
	begun, ended, executors = map[int]int{}, map[int]int{}, map[int][]string{}
	for _, entry := range s.Entries() {
		if entry.What == "begin" {
			begun[entry.Task]++
			executors[entry.Task] = append(executors[entry.Task], entry.Executor)
		} else {
			ended[entry.Task]++
		}
	}
	return begun, ended, executors
}
