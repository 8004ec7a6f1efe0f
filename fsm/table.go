package fsm

import (
	"encoding/binary"
	"strings"

	iradix "github.com/hashicorp/go-immutable-radix/v2"
)

// table is one persistent tree, and its transaction while a command is being applied. Readers hold the tree; the
// transaction is the writer's alone.
type table[T any] struct {
	tree *iradix.Tree[T]
	txn  *iradix.Txn[T]
}

func newTable[T any]() table[T] { return table[T]{tree: iradix.New[T]()} }

func (t *table[T]) get(k []byte) (T, bool) {
	if t.txn != nil {
		return t.txn.Get(k)
	}
	return t.tree.Get(k)
}

func (t *table[T]) set(k []byte, v T) {
	t.begin()
	t.txn.Insert(k, v)
}

func (t *table[T]) del(k []byte) {
	t.begin()
	t.txn.Delete(k)
}

func (t *table[T]) begin() {
	if t.txn == nil {
		t.txn = t.tree.Txn()
	}
}

// commit ends the transaction; the tree is then shared with readers.
func (t *table[T]) commit() {
	if t.txn != nil {
		t.tree = t.txn.CommitOnly()
		t.txn = nil
	}
}

// len counts the entries that are committed.
func (t *table[T]) len() int { return t.tree.Len() }

// collect gives the values under a prefix in key order, changes of the running transaction included. The caller may
// write to the table afterwards, which it must not do while iterating.
func (t *table[T]) collect(prefix []byte) []T {
	root := t.tree.Root()
	if t.txn != nil {
		root = t.txn.Root()
	}
	var out []T
	root.WalkPrefix(prefix, func(_ []byte, v T) bool {
		out = append(out, v)
		return false
	})
	return out
}

// scan visits the committed values under a prefix in key order until fn returns false.
func (t *table[T]) scan(prefix []byte, fn func(T) bool) {
	t.tree.Root().WalkPrefix(prefix, func(_ []byte, v T) bool { return !fn(v) })
}

// Keys. Identifiers contain no NUL (validated when they enter), so that it separates parts; numbers are big-endian, so
// that key order is numeric order.

func idKey(id string) []byte { return []byte(id) }

func numberKey(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func addressKey(a Address) []byte {
	k := make([]byte, 0, len(a.Host)+3)
	k = append(k, a.Host...)
	k = append(k, 0)
	return binary.BigEndian.AppendUint16(k, uint16(a.Port))
}

// pairKey is a prefix and an id; with id "" it is the prefix of all such keys.
func pairKey(prefix, id string) []byte {
	k := make([]byte, 0, len(prefix)+1+len(id))
	k = append(k, prefix...)
	k = append(k, 0)
	return append(k, id...)
}

func hostKey(host, id string) []byte { return pairKey(strings.ToLower(host), id) }

func executorKey(k ExecutorKey) []byte {
	b := make([]byte, 0, len(k.AppID)+5)
	b = append(b, k.AppID...)
	b = append(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(k.ExecID))
}

func workerExecutorKey(workerID string, k ExecutorKey) []byte {
	b := make([]byte, 0, len(workerID)+len(k.AppID)+6)
	b = append(b, workerID...)
	b = append(b, 0)
	b = append(b, k.AppID...)
	b = append(b, 0)
	return binary.BigEndian.AppendUint32(b, uint32(k.ExecID))
}

func removedKey(appID string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(pairKey(appID, ""), seq)
}

// freeKey sorts as the default selection policy does: most free cores first, ties by descending id (B-177). The bytes
// are inverted; 0xff, which stands for the NUL that ids do not contain, ends the id.
func freeKey(w *Worker) []byte {
	k := binary.BigEndian.AppendUint32(make([]byte, 0, 5+len(w.ID)), ^uint32(w.CoresFree()))
	for i := range len(w.ID) {
		k = append(k, ^w.ID[i])
	}
	return append(k, 0xff)
}
