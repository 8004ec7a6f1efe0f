package sparkmsg

import "errors"

var errStub = errors.New("stub")

// Decoded is the result of Decode.
type Decoded struct {
	Msg Message
	// Families holds the families whose catalogue agrees with every descriptor in the stream. A message without any
	// Spark or Scala class, such as Boolean, leaves all of them.
	Families FamilySet
}

// UnknownClassError reports a stream whose object is no message of this package.
type UnknownClassError struct{ Class string }

func (e *UnknownClassError) Error() string { return "sparkmsg: " + e.Class + " is not a known message" }

// IncompatibleClassError reports a descriptor of a known class that equals that of no examined release.
type IncompatibleClassError struct {
	Class    string
	Families FamilySet // those left before this class; empty together with it
}

func (e *IncompatibleClassError) Error() string {
	return "sparkmsg: descriptor of " + e.Class + " fits no Spark release that is known"
}

// Decode decodes one Java stream: the content of a request, or the body of an answer.
func Decode(stream []byte) (Decoded, error) { return Decoded{}, errStub }

// Encode encodes msg as a peer of family fam writes and reads it.
func Encode(msg Message, fam Family) ([]byte, error) { return nil, errStub }

// EncodeAny encodes msg for a peer known only to be in one of fams. It fails with *AmbiguousFamilyError if the families differ in the bytes.
func EncodeAny(msg Message, fams FamilySet) ([]byte, error) { return nil, errStub }

// AmbiguousFamilyError reports that the bytes of a message depend on which of several families the peer has.
type AmbiguousFamilyError struct {
	Message  string
	Families FamilySet
}

func (e *AmbiguousFamilyError) Error() string {
	return "sparkmsg: " + e.Message + " differs between families " + e.Families.String()
}

// MarshalPayload returns the description as a Java stream of its own, at most MaxPayload bytes.
func (d *ApplicationDescription) MarshalPayload() ([]byte, error) { return nil, errStub }

// MarshalPayload returns the description as a Java stream of its own, at most MaxPayload bytes.
func (d *DriverDescription) MarshalPayload() ([]byte, error) { return nil, errStub }

// MarshalPayload returns the exception as a Java stream of its own.
func (e *Exception) MarshalPayload() ([]byte, error) { return nil, errStub }

// ParseApplicationDescription is the inverse of MarshalPayload.
func ParseApplicationDescription(payload []byte) (*ApplicationDescription, error) {
	return nil, errStub
}

// ParseDriverDescription is the inverse of MarshalPayload.
func ParseDriverDescription(payload []byte) (*DriverDescription, error) { return nil, errStub }

// ParseException is the inverse of MarshalPayload.
func ParseException(payload []byte) (*Exception, error) { return nil, errStub }

// Bind builds Graph from the typed fields with the descriptors of fam, replacing any graph.
func (d *ApplicationDescription) Bind(fam Family) error { return errStub }

// Bind builds Graph from the typed fields with the descriptors of fam, replacing any graph.
func (d *DriverDescription) Bind(fam Family) error { return errStub }
