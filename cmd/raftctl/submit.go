package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"raftmaster/cluster/submit"
	"raftmaster/transport/rest"
)

// submitFlags describe a driver.
type submitFlags struct {
	gateway                        gatewayFlags
	wait                           waitFlags
	job                            submit.Job
	memory, options                string
	classPath, libraryPath         string
	conf, env                      []string
	noEnvironment, modules, dryRun bool
}

// submitResult is the JSON of a submission.
type submitResult struct {
	submit.Submission
	Gateway submit.Gateway `json:"gateway"`
	// Status is the last one seen with --wait.
	Status *submit.Status `json:"status,omitempty"`
}

func (a *app) submitCommand() *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit [flags] JAR|FILE.py [ARGUMENT...]",
		Short: "Submit a driver in cluster mode, through the REST or the RPC gateway",
		Long: "Submits a driver in cluster mode to raftmaster or to Spark's own master, as spark-submit does.\n\n" +
			"The jar must be readable from the workers: an http(s) URL, or a path that is the same on all of them. A .py file is run\n" +
			"by SparkSubmit on its worker. Flags stand before the jar; what follows it belongs to the driver.\n\n" +
			"A submission whose answer was lost is not repeated: exit code 124 says that the driver may be there.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return coded(exitUsage, "%s needs the URL of a jar, or of a .py file", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			f.job.Resource, f.job.Args = args[0], args[1:]
			return a.submit(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	f.gateway.register(cmd, "")
	f.wait.register(cmd)
	fs.StringVar(&f.job.MainClass, "class", "", "main class of the jar")
	fs.StringVar(&f.job.Name, "name", "", "name of the application (default: the main class)")
	fs.IntVar(&f.job.Cores, "driver-cores", 0, "cores of the driver (default 1)")
	fs.StringVar(&f.memory, "driver-memory", "", "memory of the driver, such as 512m or 2g (default 1g)")
	fs.BoolVar(&f.job.Supervise, "supervise", false, "start the driver again when it fails")
	fs.StringArrayVar(&f.conf, "conf", nil, "property as spark.KEY=VALUE; may be repeated")
	fs.StringArrayVar(&f.env, "env", nil, "variable of the driver's environment as NAME=VALUE; may be repeated")
	fs.BoolVar(&f.noEnvironment, "no-spark-env", false, "do not hand on the variables SPARK_* of this shell, as spark-submit does")
	fs.StringVar(&f.classPath, "driver-class-path", "", "entries before the driver's class path, separated by ':'")
	fs.StringVar(&f.libraryPath, "driver-library-path", "", "entries of its library path, separated by ':'")
	fs.StringVar(&f.options, "driver-java-options", "", "options of its JVM, quoted as in a shell")
	fs.BoolVar(&f.modules, "java-modules", false, "add the --add-opens options that Spark needs on Java 17; Spark itself adds them only over REST from 4.0 on")
	fs.BoolVar(&f.dryRun, "dry-run", false, "check the job and look for the leader, and submit nothing")
	return cmd
}

// moduleOptions are what a SparkContext needs on Java 17 (launcher/JavaModuleOptions.java).
var moduleOptions = []string{
	"-XX:+IgnoreUnrecognizedVMOptions",
	"--add-opens=java.base/java.lang=ALL-UNNAMED",
	"--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
	"--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED",
	"--add-opens=java.base/java.net=ALL-UNNAMED",
	"--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/java.util=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
	"--add-opens=java.base/sun.security.action=ALL-UNNAMED",
	"--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
}

// complete fills the job from the flags.
func (f *submitFlags) complete(environ []string) error {
	j := &f.job
	if f.memory != "" {
		mb, err := rest.ParseMemoryMB(f.memory)
		if err != nil || mb < 1 {
			return coded(exitUsage, "--driver-memory %s: must be at least 1m, such as 512m or 2g; a number without a unit counts bytes", f.memory)
		}
		j.MemoryMB = int(mb)
	}
	j.Conf, j.Environment = map[string]string{}, map[string]string{}
	if !f.noEnvironment {
		j.Environment = submit.SparkEnvironment(environ)
	}
	for _, pair := range []struct {
		flag string
		list []string
		to   map[string]string
	}{{"conf", f.conf, j.Conf}, {"env", f.env, j.Environment}} {
		for _, p := range pair.list {
			name, value, ok := strings.Cut(p, "=")
			if !ok || name == "" {
				return coded(exitUsage, "--%s %q: must be NAME=VALUE", pair.flag, p)
			}
			pair.to[name] = value
		}
	}
	j.ClassPath, j.LibraryPath = rest.SplitPath(f.classPath), rest.SplitPath(f.libraryPath)
	j.JavaOptions = rest.SplitCommand(f.options)
	if f.modules {
		if len(j.JavaOptions) == 0 {
			j.JavaOptions = rest.SplitCommand(j.Conf["spark.driver.extraJavaOptions"])
		}
		j.JavaOptions = append(append([]string(nil), moduleOptions...), j.JavaOptions...)
	}
	if err := f.wait.check(); err != nil {
		return err
	}
	if late := slices.Index(j.Args, "--class"); j.MainClass == "" && late >= 0 {
		return coded(exitUsage, "--class comes after %s, and what comes after it are arguments of the driver: give the options before it", j.Resource)
	}
	return gatewayError(j.Validate())
}

func (a *app) submit(ctx context.Context, f *submitFlags) error {
	if err := f.complete(os.Environ()); err != nil {
		return err
	}
	if admin, err := f.gateway.admin(); err != nil || admin {
		if err == nil {
			err = coded(exitUsage, "--gateway admin: drivers are submitted through rest or rpc")
		}
		return err
	}
	c, kind, err := f.gateway.client(ctx, a, false)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.job.OnlyHere() {
		a.note("note: %s is read by the worker that runs the driver, and must be there on each of them", clean(f.job.Resource))
	}
	if f.dryRun {
		if _, err := c.Status(ctx, noDriver); err != nil {
			return gatewayError(err)
		}
		a.note("the job is complete and a leader was found; nothing was submitted")
		return nil
	}
	done, err := c.Submit(ctx, f.job)
	if err != nil {
		return gatewayError(err)
	}
	result := submitResult{Submission: done, Gateway: kind}
	var problem error
	if f.wait.wait {
		a.note("submitted as %s", clean(done.ID))
		s, err := a.waitFor(ctx, c, done.ID, f.wait)
		result.Status = &s
		if problem = err; err == nil {
			problem = ended(s)
		}
	}
	if err := a.print.value(result, func(w io.Writer) { submitTable(w, result) }); err != nil {
		return err
	}
	return problem
}

// noDriver is an id that no master gives: to ask for it finds the leader.
const noDriver = "driver-00000000000000-0000"

func submitTable(w io.Writer, r submitResult) {
	if r.Status != nil {
		driverTable(w, *r.Status)
		return
	}
	fmt.Fprintf(w, "%s was accepted by %s\n", clean(r.ID), clean(r.Master))
	fmt.Fprintf(w, "next: raftctl driver-status --gateway %s --masters %s %s --wait\n", r.Gateway, mastersFor(r.Gateway, r.Master), clean(r.ID))
}

func mastersFor(g submit.Gateway, master string) string {
	if g == submit.GatewayREST {
		return "http://" + clean(master)
	}
	return "spark://" + clean(master)
}

// driverStatusCommand asks the admin API, or a gateway.
func (a *app) driverStatusCommand() *cobra.Command {
	var g gatewayFlags
	var f waitFlags
	cmd := a.verbWith("driver-status", "ID", "Show one driver, or wait for its end", func(ctx context.Context, id string) error {
		if err := f.check(); err != nil {
			return err
		}
		admin, err := g.admin()
		if err != nil {
			return err
		}
		if admin && !f.wait {
			return a.driverStatus(ctx, id)
		}
		var c submit.Client = adminDrivers{a: a}
		if !admin {
			if c, _, err = g.client(ctx, a, true); err != nil {
				return err
			}
			defer c.Close()
		}
		return a.gatewayStatus(ctx, c, id, f)
	})
	g.register(cmd, gatewayAdmin)
	f.register(cmd)
	return cmd
}

func (a *app) gatewayStatus(ctx context.Context, c submit.Client, id string, f waitFlags) error {
	var s submit.Status
	var problem error
	if f.wait {
		if s, problem = a.waitFor(ctx, c, id, f); problem == nil {
			problem = ended(s)
		}
	} else {
		var err error
		if s, err = c.Status(ctx, id); err != nil {
			return gatewayError(err)
		}
		if !s.Found {
			problem = coded(exitError, "the leader does not know driver %s\nnext: raftctl drivers shows the ids", clean(id))
		}
	}
	if s.ID == "" {
		return problem
	}
	if err := a.print.value(s, func(w io.Writer) { driverTable(w, s) }); err != nil {
		return err
	}
	return problem
}

// killDriverCommand ends a driver through the admin API, or a gateway, which can end all of them.
func (a *app) killDriverCommand() *cobra.Command {
	var f changeFlags
	var g gatewayFlags
	all := false
	cmd := &cobra.Command{Use: "driver ID | driver --all", Short: "End a driver in cluster mode; a supervised one is not started again",
		Args: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 0) || len(args) > 1 {
				return coded(exitUsage, "%s needs ID, or --all, and got %q", cmd.CommandPath(), args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.prepare(cmd); err != nil {
				return err
			}
			admin, err := g.admin()
			switch {
			case err != nil:
				return err
			case admin && all:
				return coded(exitUsage, "--all is for --gateway rest and rpc; the admin API ends one driver at a time")
			case admin:
				return a.kill(cmd.Context(), "driver", args[0], f)
			}
			id := ""
			if !all {
				id = args[0]
			}
			return a.gatewayKill(cmd.Context(), &g, id, f)
		}}
	f.register(cmd)
	g.register(cmd, gatewayAdmin)
	cmd.Flags().BoolVar(&all, "all", false, "end every driver (--gateway rest or rpc; Spark from 4.0 on, and raftmaster)")
	return cmd
}

// gatewayKill ends a driver, or all of them for "".
func (a *app) gatewayKill(ctx context.Context, g *gatewayFlags, id string, f changeFlags) error {
	c, _, err := g.client(ctx, a, true)
	if err != nil {
		return err
	}
	defer c.Close()
	what := "every driver of the cluster"
	if id != "" {
		s, err := c.Status(ctx, id)
		if err != nil {
			return gatewayError(err)
		}
		if !s.Found {
			return coded(exitError, "the leader does not know driver %s\nnext: raftctl drivers shows the ids", clean(id))
		}
		what = fmt.Sprintf("driver %s (%s%s)", clean(id), clean(s.State), clean(onWorker(s)))
		if s.Final() {
			f.yes = true // there is nothing to lose; the master says so
		}
	}
	if f.dryRun {
		a.note("would kill %s; nothing was changed", what)
		return nil
	}
	if err := a.term.confirm(f.yes, "Kill "+what+"? This cannot be undone."); err != nil {
		return err
	}
	var done submit.Kill
	if id == "" {
		done, err = c.KillAll(ctx)
	} else {
		done, err = c.Kill(ctx, id)
	}
	if err != nil {
		return gatewayError(err)
	}
	if err := a.print.value(done, func(w io.Writer) { fmt.Fprintln(w, clean(done.Message)) }); err != nil {
		return err
	}
	if !done.Accepted {
		return coded(exitError, "%s did not accept it: %s", clean(done.Master), clean(done.Message))
	}
	return nil
}
