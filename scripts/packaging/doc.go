// Package packaging has the tests of what is installed: units, package, archive, image. The scripts beside it make them; see
// docs/OPERATIONS.md, "Installation".
package packaging
