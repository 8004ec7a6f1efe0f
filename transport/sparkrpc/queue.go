package sparkrpc

import "raftmaster/transport/sparkmsg"

// push is one message in an outbox.
type push struct {
	seq      uint64
	endpoint string
	msg      sparkmsg.Message
	ask      *ask  // nil for a one-way message
	weight   int32 // estimated bytes
	fam      sparkmsg.Family
}

// pushQueue is a first-in first-out queue whose memory follows its length.
type pushQueue struct {
	items []push
	head  int
}

func (q *pushQueue) len() int { return len(q.items) - q.head }

// add grows a long queue by less than append would: a thousand workers that have left may have a hundred messages each.
func (q *pushQueue) add(p push) {
	if n := len(q.items); n == cap(q.items) && n >= 16 {
		q.items = append(make([]push, 0, n+n/4), q.items...)
	}
	q.items = append(q.items, p)
}

// first copies up to n messages to dst without removing them.
func (q *pushQueue) first(dst []push, n int) []push {
	return append(dst, q.items[q.head:q.head+min(n, q.len())]...)
}

func (q *pushQueue) popFront() push {
	p := q.items[q.head]
	q.items[q.head] = push{}
	q.head++
	q.shrink()
	return p
}

func (q *pushQueue) popBack() push {
	last := len(q.items) - 1
	p := q.items[last]
	q.items[last] = push{}
	q.items = q.items[:last]
	q.shrink()
	return p
}

// keptItems is what an empty queue keeps: most queues hold a message or two, again and again.
const keptItems = 4

// shrink releases memory: nearly all of it when the queue is empty, the consumed part when it is most of the array.
func (q *pushQueue) shrink() {
	switch {
	case q.len() == 0 && cap(q.items) <= keptItems:
		q.items, q.head = q.items[:0], 0
	case q.len() == 0:
		*q = pushQueue{}
	case q.head >= 64 && q.head > len(q.items)/2:
		q.items = append([]push(nil), q.items[q.head:]...)
		q.head = 0
	}
}

// Weights of messages in bytes, near what they take on the wire (a real launch takes about 4 KB).
const (
	baseWeight   = 1 << 10
	launchWeight = 4 << 10
)

// weigh estimates the size of a message from its parts of unbounded length.
func weigh(msg sparkmsg.Message) int {
	switch m := msg.(type) {
	case *sparkmsg.LaunchExecutor:
		if m.AppDesc != nil {
			return launchWeight + weighCommand(&m.AppDesc.Command)
		}
	case *sparkmsg.LaunchDriver:
		if m.DriverDesc != nil {
			return launchWeight + len(m.DriverDesc.JarURL) + weighCommand(&m.DriverDesc.Command)
		}
	case *sparkmsg.ExecutorUpdated:
		if m.Message != nil {
			return baseWeight + len(*m.Message)
		}
	case *sparkmsg.WorkerRemoved:
		return baseWeight + len(m.Message)
	case *sparkmsg.ApplicationRemoved:
		return baseWeight + len(m.Message)
	case *sparkmsg.RegisterApplication:
		if m.AppDescription != nil {
			return launchWeight + weighCommand(&m.AppDescription.Command)
		}
	}
	return baseWeight
}

func weighCommand(c *sparkmsg.Command) int {
	n := len(c.MainClass)
	for _, list := range [][]string{c.Arguments, c.ClassPathEntries, c.LibraryPathEntries, c.JavaOpts} {
		for _, s := range list {
			n += len(s)
		}
	}
	for _, v := range c.Environment {
		n += len(v.Name) + len(v.Value)
	}
	return n
}
