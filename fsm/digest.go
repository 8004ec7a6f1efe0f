package fsm

import "encoding/hex"

// Digest is a hash of the whole state: equal on replicas that hold equal state, whatever way they came to it.
type Digest [32]byte

// String gives the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// digestSum is an entity's part of the digest.
type digestSum [4]uint64
