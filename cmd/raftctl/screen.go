package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Control sequences that every terminal of today knows (ECMA-48, and the alternate screen of xterm).
const (
	screenOpen  = "\x1b[?1049h\x1b[?25l"
	screenClose = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	eraseLine   = "\x1b[K"
	eraseBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	reverse     = "\x1b[7m"
	plain       = "\x1b[0m"
)

// screen draws whole pages on a terminal, on its alternate screen, so that what was there before comes back.
type screen struct {
	out  io.Writer
	size func() (cols, rows int)
}

func (s *screen) open() { fmt.Fprint(s.out, screenOpen) }

func (s *screen) close() { fmt.Fprint(s.out, screenClose) }

// draw shows the lines that there is room for, each cut at the right edge. It overwrites, so that nothing flickers.
func (s *screen) draw(lines []string) {
	cols, rows := s.size()
	var b strings.Builder
	b.WriteString(screenHome)
	for i, line := range lines {
		if i == rows {
			break
		}
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(cut(line, cols))
		b.WriteString(eraseLine)
	}
	if len(lines) < rows {
		b.WriteString("\r\n" + eraseBelow)
	}
	fmt.Fprint(s.out, b.String())
}

// cut keeps the first columns of a line that may contain the sequences bold, reverse and plain, and ends them.
func cut(line string, cols int) string {
	var b strings.Builder
	width, styled := 0, false
	for len(line) > 0 {
		if line[0] == '\x1b' {
			end := strings.IndexByte(line, 'm')
			if end < 0 {
				break
			}
			styled = line[:end+1] != plain
			b.WriteString(line[:end+1])
			line = line[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(line)
		w := columns(r)
		if width+w > cols {
			break
		}
		width += w
		b.WriteString(line[:n])
		line = line[n:]
	}
	if styled {
		b.WriteString(plain)
	}
	return b.String()
}

// columns is how many columns a character takes: two in the blocks of East Asian scripts and pictures.
func columns(r rune) int {
	switch {
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000 && r <= 0x3fffd:
		return 2
	case r >= 0x300 && r <= 0x36f:
		return 0
	}
	return 1
}
