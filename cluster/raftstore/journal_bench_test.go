package raftstore

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// BenchmarkStoreLogs compares the store with raft-boltdb alone, which it wraps; set TMPDIR to a directory on the disk in
// question.
func BenchmarkStoreLogs(b *testing.B) {
	for _, size := range []int{300, 20 << 10} {
		for _, batch := range []int{1, 16, 256} {
			if size*batch > 1<<20 {
				continue
			}
			b.Run(fmt.Sprintf("entry=%d/batch=%d/bolt", size, batch), func(b *testing.B) {
				db, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(b.TempDir(), "raft.db"), BoltOptions: boltOptions()})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				cache, err := raft.NewLogCache(1024, db)
				if err != nil {
					b.Fatal(err)
				}
				benchStore(b, cache, size, batch)
			})
			b.Run(fmt.Sprintf("entry=%d/batch=%d/journal", size, batch), func(b *testing.B) {
				o := options(b.TempDir())
				o.journalSize = journalSize
				s, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close()
				benchStore(b, s.Logs(), size, batch)
			})
		}
	}
}

func benchStore(b *testing.B, s raft.LogStore, size, batch int) {
	data := Seal(make([]byte, size))
	b.SetBytes(int64(batch * size))
	index := uint64(0)
	for b.Loop() {
		logs := make([]*raft.Log, batch)
		for i := range logs {
			index++
			logs[i] = &raft.Log{Index: index, Term: 1, Type: raft.LogCommand, Data: data}
		}
		if err := s.StoreLogs(logs); err != nil {
			b.Fatal(err)
		}
	}
}
