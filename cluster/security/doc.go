// Package security keeps what a master proves itself by, and what callers prove themselves by: certificates and tokens.
// They come from files, which are read again when they change: what is read replaces what is used only when it is good; else
// the old goes on, and an alarm names file and reason. Nothing secret gets into logs, errors, alarms or pages.
//
// It knows no connection: transport/raftnet and transport/webui use what is kept here.
package security
