// Package rest serves Spark's REST submission protocol, version v1 (deploy/rest/RestSubmissionServer.scala,
// StandaloneRestServer.scala): drivers are submitted, killed and asked about over HTTP.
//
// A Handler decodes and checks requests, builds from a submission the driver description that Spark's own server builds,
// and hands it to a Backend, which decides. Answers have the fields of the newest Spark release that is served; clients
// of 3.x and 4.x read them alike.
//
// Requests come from strangers: bodies are bounded in size each and in bytes together before they are kept, nothing is
// echoed that a client did not name itself, and no answer waits longer than a client does.
package rest
