// Package fsmtest holds what tests of the state machine, and of everything above it, share: generators of plausible and
// of nonsensical commands for a given state, and a reference model of the planner that was written from the behaviour
// specification (B-172..B-184) without looking at the planner. It is for tests only.
package fsmtest
