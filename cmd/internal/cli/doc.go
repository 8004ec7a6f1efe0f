// Package cli has what the commands of this module share with each other: how they name their version, and how they say
// that a flag is wrong.
package cli
