package sparkmsg

import "fmt"

// UnknownClassError reports a stream whose object is no message of this package.
type UnknownClassError struct{ Class string }

func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("sparkmsg: %q is not a known message", e.Class)
}

// IncompatibleClassError reports a descriptor of a known class that is not that of any family the other descriptors of
// the stream allow: the peer runs a release that was never examined.
type IncompatibleClassError struct {
	Class    string
	Families FamilySet // those left before this class was seen
}

func (e *IncompatibleClassError) Error() string {
	return fmt.Sprintf("sparkmsg: descriptor of %s is not that of a known Spark release (other classes: %s)", e.Class, e.Families)
}

// FieldError reports a message whose content does not fit its class.
type FieldError struct {
	Class  string
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("sparkmsg: %s.%s: %s", e.Class, e.Field, e.Reason)
}

// UnsupportedError reports a message that peers of a family do not know, or a message that is not complete.
type UnsupportedError struct {
	Message string
	Family  Family
	Reason  string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("sparkmsg: %s for family %s: %s", e.Message, e.Family, e.Reason)
}

// AmbiguousFamilyError reports that the bytes of a message depend on which of several families the peer has.
type AmbiguousFamilyError struct {
	Message  string
	Families FamilySet
}

func (e *AmbiguousFamilyError) Error() string {
	return fmt.Sprintf("sparkmsg: %s differs between families %s", e.Message, e.Families)
}
