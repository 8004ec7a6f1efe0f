// Package redact takes secrets out of texts that leave a master for a support bundle: configuration, log lines, answers
// of the API. It works by rules, on names that tell of a secret and on the forms that secrets have; what has neither a
// telling name nor a known form is found only when it is given as a literal. Everything here is pure and may be called
// from any goroutine.
package redact
