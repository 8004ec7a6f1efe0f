package raftstore

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// scanned is what is in a journal file.
type scanned struct {
	logs []*raft.Log // in the order of their writing; an index may come twice, the later one counts
	next uint32      // the number of the next batch
	// last and end are where the last batch begins, and where the next one would.
	last, end int
	// torn: a batch follows whose writing was cut off.
	torn bool
}

// scanJournal reads all batches of a generation. The error is the word for the damage.
func scanJournal(data []byte, generation uint64) (scanned, error) {
	s := scanned{next: 1, last: dataStart, end: dataStart}
	for s.end+pageSize <= len(data) {
		payload, count, err := readBatch(data[s.end:], generation, s.next)
		if err != nil {
			return s, fmt.Errorf("batch %d at byte %d: %w", s.next, s.end, err)
		}
		if payload == nil {
			s.torn = count != 0
			break
		}
		logs, err := decodePayload(payload)
		if err != nil {
			return s, fmt.Errorf("batch %d at byte %d: %w", s.next, s.end, err)
		}
		s.logs = append(s.logs, logs...)
		s.last, s.end = s.end, s.end+batchSize(int(count-1)*sectorBody)
		s.next++
	}
	return s, checkBehind(data, generation, s)
}

// checkBehind looks for what can only be there when something before it was acknowledged and has gone since.
func checkBehind(data []byte, generation uint64, s scanned) error {
	for at := dataStart; at+sectorSize <= len(data); at += sectorSize {
		got, state := readSector(data[at:])
		if state != sectorIntact {
			continue
		}
		if got.generation > generation {
			return fmt.Errorf("its header is of generation %d, but byte %d is of generation %d", generation, at, got.generation)
		}
		if at >= s.end && got.generation == generation && got.batch > s.next {
			return fmt.Errorf("batch %d at byte %d is damaged or missing, although batch %d follows", s.next, s.end, got.batch)
		}
	}
	return nil
}

// readBatch reads the batch that begins with data. The payload is nil when it was not written, or not to its end: count
// is 0 when there is nothing of it at all. An error says that it was written and is damaged.
func readBatch(data []byte, generation uint64, batch uint32) (payload []byte, count uint32, err error) {
	count = batchCount(data, generation, batch)
	if count == 0 {
		if _, state := readSector(data); state == sectorBad {
			return nil, 1, nil
		}
		return nil, 0, nil
	}
	if count < 2 || int64(count)*sectorSize > int64(len(data)) {
		return nil, count, fmt.Errorf("%w: %d sectors", errRecord, count)
	}
	payload = make([]byte, 0, int(count-1)*sectorBody)
	var before, bad, firstBad int
	for i := range count {
		at := data[int(i)*sectorSize:]
		got, state := readSector(at)
		switch {
		case state == sectorIntact && got == sector{generation, batch, i, count}:
			if i < count-1 {
				payload = append(payload, at[sectorHead:sectorSize]...)
			}
		case state == sectorZero, state == sectorIntact && got.generation < generation:
			before++
		default:
			if bad++; bad == 1 {
				firstBad = int(i)
			}
		}
	}
	switch {
	case len(payload) == cap(payload): // the last sector has nothing to add
		return payload, count, nil
	case before > 0:
		return nil, count, nil
	}
	return nil, count, fmt.Errorf("the checksum of sector %d does not hold", firstBad)
}

// batchCount finds out from any intact sector of a batch how many it has; 0 when there is none.
func batchCount(data []byte, generation uint64, batch uint32) uint32 {
	for at := 0; at+sectorSize <= len(data); at += sectorSize {
		got, state := readSector(data[at:])
		if state == sectorIntact && got.generation == generation && got.batch == batch && int64(got.index)*sectorSize == int64(at) {
			return got.count
		}
	}
	return 0
}
