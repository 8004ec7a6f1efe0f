// Package config holds everything that a master can be told before it starts: one struct, its defaults, its loaders
// and its validation.
//
// A value comes from the first of these that names it: a command line flag, the environment (including the -Dkey=value
// entries of SPARK_MASTER_OPTS), the properties file, the built-in default. Spark's own names are accepted wherever an
// operator already has them, with Spark's units and ranges.
//
// Load never starts anything and keeps nothing: it returns a Config that has passed Validate, or an error that names the
// setting, its value and what is allowed. A security setting that this release does not honour is an error too, never
// an open cluster by silence. Settings that are merely unknown are collected in Config.Warnings, for the caller to log.
package config
