// Package launcher assembles the processes of executors and drivers exactly as the worker of the installed Spark release
// would: argument vector, environment, working directory and the header of the log. It reads the Spark installation
// (SPARK_HOME) and starts nothing, but for Environment, which runs Spark's own environment script once under bash, and
// Resources, which runs the discovery scripts that the operator names.
//
// # Contract
//
//   - What comes from the network (a Command, an application's id) becomes elements of an argument vector and of an
//     environment, never text of a shell. Strings that no process can be given (with a NUL byte, too long) are refused
//     with an error that names them.
//   - An argument vector equals the one that Spark's CommandUtils.buildProcessBuilder makes from the same command in the
//     same environment. Golden files recorded from Spark's builder, and a test with real Spark (cluster/sparktest), keep
//     it so.
//   - A Worker is read-only after it has been filled; its methods may be called from any goroutine. They read a few files
//     and directory entries of the Spark installation at each call, so that a changed java-opts file counts from the next
//     launch on, as with Spark.
//
// The facts are from Spark's deploy/worker/CommandUtils.scala, ExecutorRunner.scala, DriverRunner.scala,
// launcher/WorkerCommandBuilder.scala, launcher/AbstractCommandBuilder.java and deploy/StandaloneResourceUtils.scala.
package launcher
