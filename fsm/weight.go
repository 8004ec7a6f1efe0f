package fsm

import "fmt"

// Weights estimate from above how many bytes an entity's record has. They decide what Apply refuses, so that they are
// part of the log's format: they may only ever grow more lenient together with a new version of the command.

const (
	profileWeight  = 128 // field names and numbers of a ProfileState
	resourceWeight = 48  // those of a Resource or ResourceAmount
	addressWeight  = 8   // the header of one string in a list
)

func resourcesWeight(resources []Resource) int {
	n := 0
	for i := range resources {
		n += resourceWeight + len(resources[i].Name)
		for _, a := range resources[i].Addresses {
			n += addressWeight + len(a)
		}
	}
	return n
}

func profileStateWeight(p Profile) int {
	n := profileWeight
	for i := range p.Resources {
		n += resourceWeight + len(p.Resources[i].Name)
	}
	return n
}

// applicationWeight is what MaxEntityBytes holds for: all that an application's peer has a say in, but its payload.
func applicationWeight(a *Application) int {
	n := len(a.Name) + len(a.User) + len(a.UIURL)
	for i := range a.Profiles {
		n += profileStateWeight(a.Profiles[i].Profile)
	}
	return n
}

func tooLarge(cmd Command, what string, size int) error {
	return fmt.Errorf("%w: %s: %s weighs %d bytes, the limit is %d", ErrTooLarge, cmd.Type(), what, size, MaxEntityBytes)
}

// idsWeight weighs a list of ids.
func idsWeight(ids []string) int {
	n := 0
	for _, id := range ids {
		n += addressWeight + len(id)
	}
	return n
}
