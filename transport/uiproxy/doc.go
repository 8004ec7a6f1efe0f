// Package uiproxy forwards /proxy/<id>/ to the pages of workers and applications (spark.ui.reverseProxy), for browsers that
// reach the master and nothing else.
//
// It forwards to the UI address that a live worker, or an unfinished application, has registered, and nowhere else.
// Everybody who reaches the cluster port can register an address, so that it does not open what only this machine may
// reach: link-local addresses (of cloud metadata), and loopback, unless this master itself is known by a loopback address, or
// the peer by this master's own name. What is dialed is judged after the name has been resolved. Redirects of a peer come
// back through this master; the caller's proof of who he is to this master stays here. How many pages are forwarded at once
// is the caller's to bound.
package uiproxy
