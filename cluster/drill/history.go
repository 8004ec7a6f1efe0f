package drill

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxHistoryLine bounds one report in a history file.
const maxHistoryLine = 16 << 20

// errTooLong: a report that History could not read back.
var errTooLong = errors.New("it is too long")

// Append adds a report to a history file, one JSON object per line, and makes the file when it is missing. Several
// drills may append at once. Only the owner can read it. A report of very many rounds is kept without the timelines of
// those that passed.
func Append(path string, r *Report) error {
	line, err := historyLine(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

func historyLine(r *Report) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil || len(line) < maxHistoryLine {
		return line, err
	}
	short := *r
	short.Rounds = slices.Clone(r.Rounds)
	for i := range short.Rounds {
		if x := &short.Rounds[i]; x.Outcome == Passed {
			x.Timeline = []Moment{}
		}
	}
	line, err = json.Marshal(short)
	if err == nil && len(line) >= maxHistoryLine {
		err = fmt.Errorf("%w: %d bytes without timelines, at most %d are kept", errTooLong, len(line), maxHistoryLine)
	}
	return line, err
}

// History reads the last n reports of a history file, oldest first; n below 1 means all. broken counts lines that are no
// report: the end of a disk that was full, say. A missing file is an empty history.
func History(path string, n int) (reports []Report, broken int, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewScanner(f)
	in.Buffer(make([]byte, 0, 64<<10), maxHistoryLine)
	for in.Scan() {
		line := bytes.TrimSpace(in.Bytes())
		if len(line) == 0 {
			continue
		}
		var r Report
		if json.Unmarshal(line, &r) != nil || r.Drill == "" {
			broken++
			continue
		}
		reports = append(reports, r)
		if n > 0 && len(reports) > 2*n {
			reports = append([]Report(nil), reports[len(reports)-n:]...)
		}
	}
	if err := in.Err(); err != nil && !errors.Is(err, io.EOF) {
		return reports, broken, fmt.Errorf("read %s: %w", path, err)
	}
	if n > 0 && len(reports) > n {
		reports = reports[len(reports)-n:]
	}
	return reports, broken, nil
}
