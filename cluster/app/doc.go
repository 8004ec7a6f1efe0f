// Package app is an application client of a Standalone cluster in Go: it registers with the masters as Spark's
// StandaloneAppClient does, and it is the driver side that executors register with. Real executor JVMs start, register,
// heartbeat, prove with a thread dump that they work, and leave; they are given no tasks.
//
// It works with raftmaster and with Spark's own master, for every family of releases (sparkmsg.Family).
package app
