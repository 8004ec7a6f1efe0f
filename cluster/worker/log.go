package worker

import (
	"strings"

	"github.com/hashicorp/go-hclog"
)

// maxLogText bounds what a peer's text may take of one log line.
const maxLogText = 2048

// logger keeps what peers say from making log lines of its own.
type logger struct{ hclog.Logger }

func (l logger) Debug(msg string, args ...any) { l.Logger.Debug(oneLine(msg), args...) }
func (l logger) Info(msg string, args ...any)  { l.Logger.Info(oneLine(msg), args...) }
func (l logger) Warn(msg string, args ...any)  { l.Logger.Warn(oneLine(msg), args...) }
func (l logger) Error(msg string, args ...any) { l.Logger.Error(oneLine(msg), args...) }

// oneLine makes a text printable and short.
func oneLine(s string) string {
	if len(s) > maxLogText {
		s = strings.ToValidUTF8(s[:maxLogText], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, s)
}
