package launcher

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"raftmaster/transport/sparkmsg"
)

// assembly is a process whose strings have not been checked yet.
type assembly struct {
	argv []string
	// firstArgument is the index in argv of the first argument behind the main class.
	firstArgument int
	env           *environ
	javaSource    string
}

const (
	libraryPath = "LD_LIBRARY_PATH"
	// authSecretEnv hands the shared secret on without showing it in a command line (SecurityManager.scala).
	authSecretEnv = "_SPARK_AUTH_SECRET"
	authSecretKey = "spark.authenticate.secret"
	tlsPrefix     = "spark.ssl."
	rpcTLSPrefix  = "spark.ssl.rpc."
	nodeLocalKey  = "spark.ssl.useNodeLocalConf"
)

// rpcTLSPasswords are handed on by environment variables in releases from 4.0 on (SecurityManager.scala, SSLOptions.scala).
var rpcTLSPasswords = []struct{ key, env string }{
	{"keyPassword", "_SPARK_SSL_RPC_KEY_PASSWORD"},
	{"privateKeyPassword", "_SPARK_SSL_RPC_PRIVATE_KEY_PASSWORD"},
	{"keyStorePassword", "_SPARK_SSL_RPC_KEY_STORE_PASSWORD"},
	{"trustStorePassword", "_SPARK_SSL_RPC_TRUST_STORE_PASSWORD"},
}

// assemble follows CommandUtils.buildProcessBuilder. substitute replaces whole arguments.
func (w *Worker) assemble(c sparkmsg.Command, memoryMB int32, substitute map[string]string) (assembly, error) {
	if len(c.Unread) > 0 {
		return assembly{}, fmt.Errorf("the command's %s cannot be read: they are of a class that this worker does not know",
			strings.Join(c.Unread, ", "))
	}
	if c.MainClass == "" {
		return assembly{}, fmt.Errorf("the command names no main class")
	}
	for _, v := range c.Environment {
		if v.Name == "" {
			return assembly{}, &StringError{What: `environment variable ""`, Reason: "has no name"}
		}
		if strings.Contains(v.Name, "=") {
			return assembly{}, &StringError{What: fmt.Sprintf("environment variable %q", v.Name), Reason: `has "=" in its name`}
		}
	}
	worker := newEnviron(w.Env)
	command := commandEnviron(c.Environment)
	if err := w.addToEnvironment(command, worker, c.LibraryPathEntries); err != nil {
		return assembly{}, err
	}
	vars := pair{command: command, worker: worker}
	program, source, err := java(vars)
	if err != nil {
		return assembly{}, err
	}
	confDir := vars.get("SPARK_CONF_DIR")
	if confDir == "" {
		confDir = w.Home.Dir + "/conf"
	}
	common, err := javaOptsFile(confDir)
	if err != nil {
		return assembly{}, err
	}
	path, err := buildClasspath(w.Home, c, confDir, vars)
	if err != nil {
		return assembly{}, err
	}
	argv := append([]string{program}, common...)
	argv = append(argv, "-cp", path, "-Xmx"+strconv.Itoa(int(memoryMB))+"M")
	argv = append(argv, w.keptOptions(c.JavaOpts)...)
	argv = append(argv, c.MainClass)
	first := len(argv)
	for _, a := range c.Arguments {
		if value, ok := substitute[a]; ok {
			a = value
		}
		argv = append(argv, a)
	}
	env := newEnviron(w.Env)
	env.setAll(command)
	return assembly{argv: argv, firstArgument: first, env: env, javaSource: source}, nil
}

// keptOptions leaves out the options that would show in a command line what is secret: by prefix, so that longer names go
// as well, as in Spark.
func (w *Worker) keptOptions(options []string) []string {
	dropped := []string{"-D" + authSecretKey}
	if w.Home.major() >= 4 {
		for _, p := range rpcTLSPasswords {
			dropped = append(dropped, "-D"+rpcTLSPrefix+p.key)
		}
	}
	kept := make([]string, 0, len(options))
next:
	for _, o := range options {
		for _, prefix := range dropped {
			if strings.HasPrefix(o, prefix) {
				continue next
			}
		}
		kept = append(kept, o)
	}
	return kept
}

// addToEnvironment adds to the command's environment what the worker puts there: library path and secrets.
func (w *Worker) addToEnvironment(command, worker *environ, libraries []string) error {
	if len(libraries) > 0 {
		parts := append([]string(nil), libraries...)
		for _, from := range []*environ{command, worker} {
			if v, ok := from.lookup(libraryPath); ok {
				parts = append(parts, v)
			}
		}
		command.set(libraryPath, strings.Join(parts, ":"))
	}
	if w.isTrue("spark.authenticate") {
		secret, ok := worker.lookup(authSecretEnv)
		if !ok {
			secret, ok = w.Properties[authSecretKey]
		}
		if !ok {
			return fmt.Errorf("spark.authenticate is true and the worker has no secret: set %s", authSecretKey)
		}
		command.set(authSecretEnv, secret)
	}
	if w.Home.major() >= 4 && w.isTrue(rpcTLSPrefix+"enabled") {
		for _, p := range rpcTLSPasswords {
			value, ok := w.Properties[rpcTLSPrefix+p.key]
			if !ok && w.isTrue(tlsPrefix+"enabled") { // only then do settings of spark.ssl.rpc default to those of spark.ssl
				value, ok = w.Properties[tlsPrefix+p.key]
			}
			if ok {
				command.set(p.env, value)
			}
		}
	}
	return nil
}

func (w *Worker) isTrue(key string) bool { return strings.EqualFold(w.Properties[key], "true") }

// nodeLocalTLS replaces the spark.ssl.* options of a command that asks for it by the worker's own settings
// (Worker.maybeUpdateSSLSettings). Spark adds them in the order of a hash table; here they are sorted.
func (w *Worker) nodeLocalTLS(c sparkmsg.Command) (sparkmsg.Command, error) {
	asked := ""
	for _, o := range c.JavaOpts {
		if v, ok := strings.CutPrefix(o, "-D"+nodeLocalKey+"="); ok && v != "" && !strings.ContainsAny(v, "\n\r\u0085\u2028\u2029") {
			asked = v
			break
		}
	}
	switch strings.ToLower(asked) {
	case "", "false":
		return c, nil
	case "true":
	default:
		return c, fmt.Errorf("-D%s=%s: must be true or false", nodeLocalKey, asked)
	}
	var options []string
	for _, o := range c.JavaOpts {
		if !strings.HasPrefix(o, "-D"+tlsPrefix) {
			options = append(options, o)
		}
	}
	var keys []string
	for key := range w.Properties {
		if strings.HasPrefix(key, tlsPrefix) {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	for _, key := range keys {
		options = append(options, "-D"+key+"="+w.Properties[key])
	}
	c.JavaOpts = append(options, "-D"+nodeLocalKey+"=true")
	return c, nil
}
