// Package admin turns what a node knows into what an operator sees: the views of transport/webui, the metrics, and the
// history of events.
//
// It owns no truth. Backend reads the replicated state through fsm.View, Raft's side through Node, and the leader's soft
// state through Master, each time it is asked; Metrics and Ring are told by those that do the work. Backend implements
// webui.State and webui.Leadership, Ring implements webui.Events. Changes of the masters go through Backend, which judges
// them first; cluster/node has the last word. Everything here may be used from any goroutine.
package admin
