// Package launchertest makes commands at random, from a seed, for comparing what package launcher makes of them with what
// Spark's own command builder does (testdata/LauncherOracle.java of that package), and replays recorded comparisons.
//
// Cases hold no path of a machine: Root, Home and JavaHome stand for the test's directory, SPARK_HOME and the home of the
// default Java, until Place puts paths in.
package launchertest
