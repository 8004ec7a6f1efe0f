package raftstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// The data of a log entry of type LogCommand is a CRC-32C (Castagnoli, 4 bytes, big endian) of the command's bytes,
// followed by these bytes. bbolt has no checksum over its data pages: without this one, a byte that the disk has changed
// would be applied, and sent to others.

const sealSize = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSeal: the bytes of a command are not those that were proposed.
var errSeal = errors.New("the checksum of its command does not hold")

// Seal puts the checksum in front of a command's bytes: what a log entry of type LogCommand holds.
func Seal(command []byte) []byte {
	b := make([]byte, sealSize, sealSize+len(command))
	binary.BigEndian.PutUint32(b, crc32.Checksum(command, castagnoli))
	return append(b, command...)
}

// Unseal checks and removes the checksum. The result shares memory with the argument; the error wraps ErrDamaged.
func Unseal(data []byte) ([]byte, error) {
	if len(data) < sealSize {
		return nil, fmt.Errorf("%w: a command of %d bytes has no checksum", ErrDamaged, len(data))
	}
	command := data[sealSize:]
	if binary.BigEndian.Uint32(data) != crc32.Checksum(command, castagnoli) {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, errSeal)
	}
	return command, nil
}

// checkSeal refuses an entry whose command is damaged; other types of entries are raft's own.
func (s *Store) checkSeal(entry *raft.Log) error {
	if entry.Type != raft.LogCommand {
		return nil
	}
	if _, err := Unseal(entry.Data); err != nil {
		return damaged(filepath.Join(s.dir, logFile), fmt.Sprintf("damaged at log entry %d: %v", entry.Index, errSeal), backupHint)
	}
	return nil
}

// DamagedEntry is the error about a command that does not pass Unseal on its way to the state machine, with what to do.
func DamagedEntry(index uint64, cause error) error {
	return fmt.Errorf("the data directory is damaged at log entry %d: %w; %s", index, cause, backupHint)
}
