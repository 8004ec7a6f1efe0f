// Package backup holds the files that raftctl snapshot saves and restores, and saves such files on a schedule.
//
// A file is the replicated state after one log entry, in fsm's snapshot format, in an envelope that says where and when
// it was taken and has a checksum of its own, so that a download that was cut off is known as such:
//
//	magic (8 bytes), format u16, length of the header u32, header (JSON),
//	chunks of the state: length u32, bytes; a length of 0 ends them,
//	number of bytes of the state u64, SHA-256 of all bytes before it (32).
//
// Numbers are big-endian. The state holds payloads of applications and drivers, with whatever secrets their submitters put
// there: files are made with mode 0600, in directories with mode 0700, and get their final name only when they are whole.
//
// Write and Read know nothing of files or networks. Save, Schedule and their file handling are safe for one process per
// directory; readers may look at the directory at any time.
package backup
