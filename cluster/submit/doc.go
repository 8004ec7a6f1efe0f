// Package submit submits drivers in cluster mode to a Standalone master, raftmaster's or Spark's own, and asks for their
// state and their end, through either gateway that such a master has: the RPC messages of org.apache.spark.deploy.Client
// on the cluster port, and the REST protocol of org.apache.spark.deploy.rest on port 6066.
//
// Contract:
//
//   - A list of masters is a list of places where the leader may be. All of them are tried, a standby's answer is never
//     the result, and when nobody leads the error names what each of them said.
//   - A submission is sent to one master at a time, and again only after an answer that proves that nothing was done: a
//     standby's refusal, or a connection that could not be made. When an answer is lost after the request was sent, the
//     outcome is an *UnknownError, which names what to look for; the request is not repeated. (Spark's own client sends a
//     submission to every master at once, so that two drivers may run when leadership moves in that moment.)
//   - What is submitted is what spark-submit would submit: Job.Description is the description that deploy.Client makes,
//     Job.request the message that deploy.rest.RestSubmissionClient makes.
//   - Asking and killing may be repeated and are: they are given until the context ends to find a leader.
//
// Clients are safe for concurrent use. An RPC client has goroutines until Close.
package submit
