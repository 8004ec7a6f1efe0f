package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"raftmaster/cluster/node"
	"raftmaster/cluster/raftstore"
)

// logCommand is log dump.
func (a *app) logCommand() *cobra.Command {
	log := &cobra.Command{Use: "log", Short: "The log of a stopped master",
		Args: cobra.ArbitraryArgs, RunE: unknownCommand("name what to do: log dump"),
		SuggestionsMinimumDistance: suggestionDistance}
	var dir string
	var from, to uint64
	sizes := false
	dump := a.verb("dump", "Print the entries in a stopped master's data directory: what they are and whom they are about, never their payloads", nil)
	dump.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.prepare(cmd); err != nil {
			return err
		}
		switch {
		case dir == "":
			return coded(exitUsage, "name the data directory: --data-dir DIR")
		case to != 0 && to < from:
			return coded(exitUsage, "--to %d is before --from %d", to, from)
		}
		if err := needDataDir(dir); err != nil {
			return err
		}
		return a.dumpLog(dir, from, to, sizes)
	}
	fs := dump.Flags()
	fs.StringVar(&dir, "data-dir", "", "the stopped master's data directory")
	fs.Uint64Var(&from, "from", 0, "first index (default: the first that is there)")
	fs.Uint64Var(&to, "to", 0, "last index (default: the last that is there)")
	fs.BoolVar(&sizes, "payload-sizes", false, "say how large payloads and other bytes are")
	log.AddCommand(dump)
	return log
}

// dumpedEntry is one entry: a line of the table, or of JSON (one object a line).
type dumpedEntry struct {
	Index      uint64   `json:"index"`
	Term       uint64   `json:"term"`
	TimeMillis int64    `json:"time_millis"`
	Type       string   `json:"type"`
	Command    string   `json:"command"`
	RequestID  string   `json:"request_id"`
	Subjects   []string `json:"subjects"`
	Bytes      int      `json:"bytes"`
	// PayloadBytes is -1 unless it was asked for.
	PayloadBytes int    `json:"payload_bytes"`
	Problem      string `json:"problem"`
}

func (e dumpedEntry) line(sizes bool) string {
	what := e.Command
	if what == "" {
		what = e.Type
	}
	s := fmt.Sprintf("%-8d %-4d %-23s  %-20s %6d B", e.Index, e.Term, stamp(e.TimeMillis), what, e.Bytes)
	if sizes {
		s += fmt.Sprintf(" payload=%d", e.PayloadBytes)
	}
	s += "  " + strings.Join(e.Subjects, " ")
	if e.Problem != "" {
		s += "  PROBLEM: " + e.Problem
	}
	return strings.TrimRight(s, " ")
}

func (a *app) dumpLog(dir string, from, to uint64, sizes bool) error {
	n, problems := 0, 0
	each := func(e dumpedEntry) error {
		if n++; e.Problem != "" {
			problems++
		}
		if a.print.json {
			enc := json.NewEncoder(a.print.out)
			enc.SetEscapeHTML(false)
			return enc.Encode(e)
		}
		_, err := fmt.Fprintln(a.print.out, clean(e.line(sizes)))
		return err
	}
	err := node.DumpLog(dir, from, to, hclog.NewNullLogger(), func(l node.LogEntry) error { return each(dumped(l, sizes)) })
	switch {
	case errors.Is(err, raftstore.ErrInUse):
		return coded(exitRefused, "%w\nnext: stop that master, or dump a copy of its directory that was made while it was stopped", err)
	case err != nil:
		return coded(exitError, "%w", err)
	}
	a.note("%d entries", n)
	if problems > 0 {
		return coded(exitUnhealthy, "%d of them cannot be read", problems)
	}
	return nil
}

func dumped(l node.LogEntry, sizes bool) dumpedEntry {
	e := dumpedEntry{Index: l.Index, Term: l.Term, TimeMillis: l.NowMillis, Type: l.Type, Command: l.Command, RequestID: l.RequestID,
		Bytes: l.Size, PayloadBytes: -1, Problem: l.Problem, Subjects: []string{}}
	if e.TimeMillis == 0 && l.AppendedAt.After(time.Unix(0, 0)) {
		e.TimeMillis = l.AppendedAt.UnixMilli()
	}
	if l.Detail == nil {
		return e
	}
	d := describer{}
	d.add(reflect.ValueOf(l.Detail), 0)
	if e.Subjects = append(e.Subjects, d.out...); sizes {
		e.PayloadBytes = d.payload
	}
	return e
}

// shownFields are the fields of commands that say whom they are about. Whatever is not here is not shown: names of users,
// texts and payloads are none of a log's reader.
var shownFields = map[string]bool{
	"ID": true, "IDs": true, "AppID": true, "ExecID": true, "WorkerID": true, "DriverID": true, "NodeID": true, "ClusterID": true, "State": true,
	"ReplaceHolder": true, "RestoreID": true, "Seq": true, "Chunks": true, "On": true, "Release": true, "Address": true, "Suffrage": true, "Level": true,
}

const (
	// maxSubjects bounds what is shown of one entry.
	maxSubjects = 12
	// maxSubjectDepth bounds how deep it is looked for.
	maxSubjectDepth = 3
)

type describer struct {
	out     []string
	payload int
}

// add looks through a command. Bytes are counted, never shown.
func (d *describer) add(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			d.field(v.Type().Field(i), v.Field(i), depth)
		}
	case reflect.Slice:
		for i := range v.Len() {
			d.add(v.Index(i), depth+1)
		}
	case reflect.String:
		d.show("", v)
	default:
	}
}

func (d *describer) field(f reflect.StructField, v reflect.Value, depth int) {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		d.payload += v.Len()
		return
	}
	switch {
	case !f.IsExported() || f.Name == "Meta" || depth > maxSubjectDepth:
	case v.Kind() == reflect.Struct && shownFields[f.Name], shownFields[f.Name] && v.Kind() != reflect.Slice:
		d.show(f.Name, v)
	case v.Kind() == reflect.Slice && (shownFields[f.Name] || v.Type().Elem().Kind() == reflect.Struct):
		d.add(v, depth+1)
	}
}

func (d *describer) show(name string, v reflect.Value) {
	if v.IsZero() && v.Kind() != reflect.Int {
		return
	}
	switch len(d.out) {
	case maxSubjects:
		d.out = append(d.out, "...")
		return
	case maxSubjects + 1:
		return
	}
	text := fmt.Sprint(v.Interface())
	if name != "" && name != "ID" {
		text = strings.ToLower(name) + "=" + text
	}
	d.out = append(d.out, text)
}
