package sparkmsg

import (
	"math/bits"
	"strconv"
	"strings"
)

// Family is a range of Spark releases whose deploy messages have identical class descriptors.
type Family uint8

// The families, oldest first.
const (
	FamilyUnknown Family = iota
	FamilyA              // 3.2 and 3.3
	FamilyB              // 3.4 and 3.5
	FamilyC              // 4.0
	FamilyD              // 4.1 and 4.2
	FamilyE              // 4.3
	familyEnd
)

// String returns the letter of the family, "unknown" for FamilyUnknown.
func (f Family) String() string {
	if f == FamilyUnknown || f >= familyEnd {
		return "unknown"
	}
	return string(rune('A' + f - FamilyA))
}

// Lines are the lines of Spark releases that belong to a family, oldest first.
func Lines() []string {
	return []string{"3.2", "3.3", "3.4", "3.5", "4.0", "4.1", "4.2", "4.3"}
}

// scala213 reports whether the family's releases are built with Scala 2.13.
func (f Family) scala213() bool { return f >= FamilyC }

// FamilySet is a set of families. The bits are stable and may be stored: bit 0 is A.
type FamilySet uint8

// AllFamilies holds every family.
const AllFamilies FamilySet = 1<<(familyEnd-FamilyA) - 1

// SetOf returns the set of the given families; FamilyUnknown is left out.
func SetOf(fams ...Family) FamilySet {
	var s FamilySet
	for _, f := range fams {
		if f > FamilyUnknown && f < familyEnd {
			s |= 1 << (f - FamilyA)
		}
	}
	return s
}

// Has reports whether f is in the set.
func (s FamilySet) Has(f Family) bool { return SetOf(f)&s != 0 }

// Intersect returns what is in both sets.
func (s FamilySet) Intersect(o FamilySet) FamilySet { return s & o & AllFamilies }

// IsEmpty reports whether no family is in the set.
func (s FamilySet) IsEmpty() bool { return s&AllFamilies == 0 }

// Single returns the family of a set that has exactly one.
func (s FamilySet) Single() (Family, bool) {
	if bits.OnesCount8(uint8(s&AllFamilies)) != 1 {
		return FamilyUnknown, false
	}
	return s.Lowest(), true
}

// Lowest returns the oldest family of the set, FamilyUnknown if it is empty.
func (s FamilySet) Lowest() Family {
	if s.IsEmpty() {
		return FamilyUnknown
	}
	return FamilyA + Family(bits.TrailingZeros8(uint8(s)))
}

// Families returns the members, oldest first.
func (s FamilySet) Families() []Family {
	var out []Family
	for f := FamilyA; f < familyEnd; f++ {
		if s.Has(f) {
			out = append(out, f)
		}
	}
	return out
}

// String returns the letters, such as "DE"; "none" for the empty set.
func (s FamilySet) String() string {
	if s.IsEmpty() {
		return "none"
	}
	var b strings.Builder
	for _, f := range s.Families() {
		b.WriteString(f.String())
	}
	return b.String()
}

// FamilyForRelease returns the family of a Spark release such as "3.5.9" or "4.1.0-preview1"; ok is false for a release
// line that was never examined.
func FamilyForRelease(release string) (f Family, ok bool) {
	major, rest, found := strings.Cut(release, ".")
	if !found {
		return FamilyUnknown, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	minor, err := strconv.Atoi(rest[:end])
	if err != nil {
		return FamilyUnknown, false
	}
	switch {
	case major == "3" && (minor == 2 || minor == 3):
		return FamilyA, true
	case major == "3" && (minor == 4 || minor == 5):
		return FamilyB, true
	case major == "4" && minor == 0:
		return FamilyC, true
	case major == "4" && (minor == 1 || minor == 2):
		return FamilyD, true
	case major == "4" && minor == 3:
		return FamilyE, true
	}
	return FamilyUnknown, false
}
