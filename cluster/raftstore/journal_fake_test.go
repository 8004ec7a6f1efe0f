package raftstore

import (
	"math/rand/v2"
	"sync"
	"syscall"
)

// faultyDisk is a real one below which stands a disk that loses power: a sector that was written and not synced may have its
// content of before. Like a kernel's, a sync that fails marks what it should have written as clean all the same. Writes
// can be cut off at any byte, and fail.
type faultyDisk struct {
	mu     sync.Mutex
	budget int64 // bytes that are still written; negative: no limit. The write that exceeds it is cut off
	sync   error
	alloc  error
	bytes  int64 // written so far
	files  map[string]*cached
}

// cached is what the page cache knows of a file.
type cached struct {
	undone map[int64][]byte // sectors that may have this content on the disk
	dirty  map[int64]bool
}

func newFaultyDisk() *faultyDisk { return &faultyDisk{budget: -1, files: make(map[string]*cached)} }

func (d *faultyDisk) set(edit func(*faultyDisk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	edit(d)
}

func (d *faultyDisk) create(path string, size int64) (diskFile, error) {
	d.mu.Lock()
	err := d.alloc
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := realDisk{}.create(path, size)
	return d.wrap(path[:len(path)-len(tmpSuffix)], f, err)
}

func (d *faultyDisk) open(path string) (diskFile, error) {
	f, err := realDisk{}.open(path)
	return d.wrap(path, f, err)
}

func (d *faultyDisk) wrap(path string, f diskFile, err error) (diskFile, error) {
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.files[path] == nil {
		d.files[path] = &cached{undone: make(map[int64][]byte), dirty: make(map[int64]bool)}
	}
	return &faultyFile{diskFile: f, disk: d, cached: d.files[path]}, nil
}

// powerLoss takes back a random part of what was not synced. No file may be open.
func (d *faultyDisk) powerLoss(rng *rand.Rand) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for path, c := range d.files {
		f, err := realDisk{}.open(path)
		if err != nil {
			return err
		}
		share := rng.Float64()
		for at, before := range c.undone {
			if rng.Float64() < share {
				if _, err := f.WriteAt(before, at); err != nil {
					return err
				}
			}
		}
		if err := f.Close(); err != nil {
			return err
		}
		clear(c.undone)
		clear(c.dirty)
	}
	return nil
}

type faultyFile struct {
	diskFile
	disk   *faultyDisk
	cached *cached
}

func (f *faultyFile) WriteAt(p []byte, at int64) (int, error) {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	cut := len(p)
	if d.budget >= 0 {
		cut = int(min(int64(cut), d.budget))
		d.budget -= int64(cut)
	}
	for s := at / sectorSize * sectorSize; s < at+int64(cut); s += sectorSize {
		if f.cached.undone[s] == nil {
			before := make([]byte, sectorSize)
			if _, err := f.ReadAt(before, s); err != nil {
				return 0, err
			}
			f.cached.undone[s] = before
		}
		f.cached.dirty[s] = true
	}
	n, err := f.diskFile.WriteAt(p[:cut], at)
	d.bytes += int64(n)
	if err == nil && cut < len(p) {
		err = syscall.EIO
	}
	return n, err
}

// Sync does not wait for the real disk: these tests end no machine.
func (f *faultyFile) Sync() error {
	d := f.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.sync
	if d.budget == 0 {
		err = syscall.EIO
	}
	if err == nil {
		for s := range f.cached.dirty {
			delete(f.cached.undone, s)
		}
	}
	clear(f.cached.dirty)
	return err
}

// crash gives up a store as the end of its process would: nothing is carried over, locks are free.
func crash(s *Store) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.log.write.Lock()
	if c := s.log.carried; c != nil {
		<-c
	}
	for _, err := range []error{closeSegments(s.log.files), s.bolt.Close(), s.stable.close(), s.lock.Close()} {
		if err != nil {
			return err
		}
	}
	return nil
}
