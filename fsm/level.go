package fsm

import (
	"fmt"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Level says which commands a release knows, and which ones a cluster uses. Levels rise by one with each release that adds
// a command, or a version of one; they are never reused. The cluster's level is replicated: the leader raises it when every
// member of the configuration has announced a higher one, and nothing lowers it again. What a level adds is appended only
// from then on, so that no replica meets an entry that it cannot read.
type Level uint8

const (
	// LevelFirst has all commands but those named below.
	LevelFirst Level = 1
	// LevelRestore adds StageRestore, CommitRestore and RaiseLevel itself.
	LevelRestore Level = 2
	// CommandLevel is what this release knows.
	CommandLevel = LevelRestore
)

// TypeRaiseLevel is the command type of RaiseLevel.
const TypeRaiseLevel CommandType = 22

// commandLevels names the level of what came after LevelFirst, by type and version.
var commandLevels = map[[2]uint8]Level{
	{uint8(TypeStageRestore), 1}:  LevelRestore,
	{uint8(TypeCommitRestore), 1}: LevelRestore,
	{uint8(TypeRaiseLevel), 1}:    LevelRestore,
}

// LevelOf is the level from which on a cluster may append the command, in the version that this release encodes. A command
// that may be skipped needs none.
func LevelOf(t CommandType) Level { return levelOf(t, commandVersion) }

func levelOf(t CommandType, version uint8) Level {
	if t.Skippable() {
		return LevelFirst
	}
	return max(commandLevels[[2]uint8{uint8(t), version}], LevelFirst)
}

// RaiseLevel raises the cluster's level; a lower one than it has changes nothing. A release that does not know the level
// refuses to read it (LevelError). Value: Level, the one that holds now.
type RaiseLevel struct {
	Meta
	Level Level
}

// Type implements Command.
func (RaiseLevel) Type() CommandType { return TypeRaiseLevel }

func (t *tx) raiseLevel(c RaiseLevel) (any, error) {
	if c.Level < LevelFirst {
		return nil, invalid(c, "level %d", c.Level)
	}
	if c.Level > t.globals.level() {
		t.editGlobals().Level = c.Level
	}
	return t.globals.level(), nil
}

func (g *globals) level() Level { return max(g.Level, LevelFirst) }

// Level is the level that the cluster uses.
func (v View) Level() Level { return v.state().globals.level() }

// LevelError: the log or the snapshot is of a cluster that uses a level which this release does not know.
type LevelError struct{ Needed, Known Level }

// Error names both levels and says what to do.
func (e *LevelError) Error() string {
	return fmt.Sprintf("the cluster uses commands of level %d, this release knows level %d: install the release that this master had before, "+
		"or a later one; a cluster never goes back to an older level", e.Needed, e.Known)
}

// DecodeCommandAt reads an entry as a release of that level does, see DecodeCommand.
func DecodeCommandAt(entry []byte, known Level) (Command, error) {
	cmd, err := decodeCommand(entry)
	if err != nil {
		return nil, err
	}
	if _, skipped := cmd.(Skipped); !skipped && LevelOf(cmd.Type()) > known {
		return nil, &UnknownCommandError{Type: cmd.Type(), Version: entry[1]}
	}
	if raise, ok := cmd.(RaiseLevel); ok && raise.Level > known {
		return nil, &LevelError{Needed: raise.Level, Known: known}
	}
	return cmd, nil
}

// checkLevel looks at the level in a snapshot's globals first: those of a newer release may have fields that are unknown here.
func checkLevel(globals []byte) error {
	var g struct{ Level Level }
	if err := codec.NewDecoderBytes(globals, lenientHandle).Decode(&g); err != nil {
		return err
	}
	if g.Level > CommandLevel {
		return &LevelError{Needed: g.Level, Known: CommandLevel}
	}
	return nil
}

// lenientHandle ignores unknown fields. It decodes what is decoded again with msgpackHandle.
var lenientHandle = newLenientHandle()

func newLenientHandle() *codec.MsgpackHandle {
	h := newMsgpackHandle()
	h.ErrorIfNoField = false
	return h
}
