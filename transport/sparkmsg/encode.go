package sparkmsg

import (
	"bytes"
	"fmt"

	"raftmaster/transport/javaser"
)

// Encode encodes msg as a peer of family fam writes and reads it; see Append.
func Encode(msg Message, fam Family) ([]byte, error) { return Append(nil, msg, fam) }

// Append appends msg to dst as a peer of family fam writes and reads it. It fails with *UnsupportedError if the family
// does not have the message or msg lacks a description, and with *PayloadTooLargeError. Boolean is encoded the same for
// every family, FamilyUnknown included.
func Append(dst []byte, msg Message, fam Family) ([]byte, error) {
	if f, ok := msg.(*ForFamily); ok {
		msg, fam = f.Message, f.Family
	}
	if fam >= familyEnd {
		fam = FamilyUnknown
	}
	if fam == FamilyUnknown {
		if _, ok := msg.(*Boolean); !ok {
			return nil, &UnsupportedError{Message: msg.MessageName(), Family: fam, Reason: "family is not known"}
		}
		fam = FamilyA
	}
	if out, ok := appendForm(dst, msg, fam); ok {
		return out, nil
	}
	return encodeGraph(dst, msg, fam)
}

// encodeGraph appends msg by way of its object graph.
func encodeGraph(dst []byte, msg Message, fam Family) ([]byte, error) {
	b := &builder{cat: loadCatalogues().of[fam], message: msg.MessageName()}
	root := b.build(msg)
	if b.err != nil {
		return nil, b.err
	}
	if dst == nil {
		dst = make([]byte, 0, 2048)
	}
	start := len(dst)
	out, err := javaser.Append(dst, root, limits)
	if err != nil {
		return nil, fmt.Errorf("sparkmsg: %s for family %s: %w", b.message, fam, err)
	}
	if len(out)-start > MaxPayload {
		if err := checkPayload(msg); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// EncodeAny encodes msg for a peer of which only a set of possible families is known. It fails with
// *AmbiguousFamilyError if the bytes differ between them.
func EncodeAny(msg Message, fams FamilySet) ([]byte, error) {
	first, err := Encode(msg, fams.Lowest())
	if err != nil {
		return nil, err
	}
	for _, fam := range fams.Families() {
		if fam == fams.Lowest() {
			continue
		}
		next, err := Encode(msg, fam)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(first, next) {
			return nil, &AmbiguousFamilyError{Message: msg.MessageName(), Families: fams}
		}
	}
	return first, nil
}

func (b *builder) deploy(name string) fields { return b.object(deployMessages + name) }

// build returns the graph of msg.
func (b *builder) build(msg Message) javaser.Node {
	for _, part := range []func(Message) (javaser.Node, bool){b.workerMessage, b.appMessage, b.clientMessage, b.executorMessage} {
		if n, ok := part(msg); ok {
			return n
		}
	}
	b.fail("is not a message of this package")
	return nil
}
