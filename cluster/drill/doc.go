// Package drill makes faults in a running cluster of masters on purpose, measures how it survives them, and judges
// whether anything was lost.
//
// A drill looks at the cluster first and refuses where one more fault could do harm (preflight). It claims the drill
// interface of every master (transport/webui, Drills), takes the replicated state, makes the fault, and measures until
// everything is attached again. Then it takes the state once more and compares: every difference must be explained by an
// entry of the replicated log that a worker, an application or an operator has caused; what the masters did by themselves
// is damage. The explanations come from the log, not from the masters' histories: each master that survives has the
// whole log of the time, that of a killed one included.
//
// Faults end by themselves. Claims are renewed while the drill runs; when it dies, the masters end what is left.
//
// Nothing here writes to a terminal or ends a process. Run is synchronous; its goroutines end before it returns.
package drill
