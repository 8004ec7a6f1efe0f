package javaser

// Stream constants (java.io.ObjectStreamConstants).
const (
	magicAndVersion = 0xACED0005

	tcNull          = 0x70
	tcReference     = 0x71
	tcClassDesc     = 0x72
	tcObject        = 0x73
	tcString        = 0x74
	tcArray         = 0x75
	tcClass         = 0x76
	tcBlockData     = 0x77
	tcEndBlockData  = 0x78
	tcBlockDataLong = 0x7A
	tcLongString    = 0x7C
	tcEnum          = 0x7E

	baseHandle = 0x7E0000
)

// elemSize returns the size in bytes of a primitive type, 0 for references and ok false for anything else.
func elemSize(typ byte) (size int, ok bool) {
	switch typ {
	case 'B', 'Z':
		return 1, true
	case 'C', 'S':
		return 2, true
	case 'I', 'F':
		return 4, true
	case 'J', 'D':
		return 8, true
	case 'L', '[':
		return 0, true
	}
	return 0, false
}
