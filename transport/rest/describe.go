package rest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"raftmaster/transport/sparkmsg"
)

// Defaults of a driver (deploy/ClientArguments.scala).
const (
	defaultMemoryMB = 1024
	defaultCores    = 1
)

const (
	driverWrapper  = "org.apache.spark.deploy.worker.DriverWrapper"
	sparkSubmit    = "org.apache.spark.deploy.SparkSubmit"
	resourcePrefix = "spark.driver.resource."
)

// allowedResource applies spark.master.rest.allowedAppResourcePatterns.
func (h *Handler) allowedResource(req *request) error {
	if len(h.opts.AllowedAppResources) == 0 {
		return nil
	}
	for _, p := range h.opts.AllowedAppResources {
		if m := p.FindStringIndex(req.AppResource); m != nil && m[0] == 0 && m[1] == len(req.AppResource) {
			return nil
		}
	}
	return malformed(protocolException, "Valid application jar path is required: appResource matches none of spark.master.rest.allowedAppResourcePatterns.")
}

// describe builds the driver that Spark's server builds from the same request (deploy/rest/StandaloneRestServer.scala),
// except that spark.master is always the whole list of masters (S12).
func (h *Handler) describe(req *request) (*sparkmsg.DriverDescription, error) {
	props := make(map[string]string, len(req.SparkProperties)+1)
	for k, v := range req.SparkProperties {
		props[k] = h.placeholder(v)
	}
	if err := (&request{SparkProperties: props}).validate(); err != nil {
		return nil, err // a placeholder gave a value of the wrong type
	}
	// Another kind of master is the driver's own affair.
	if m, ok := props["spark.master"]; !ok || m == "" || strings.HasPrefix(m, "spark://") {
		props["spark.master"] = h.opts.ClusterURL
	}
	d := &sparkmsg.DriverDescription{JarURL: req.AppResource, Mem: defaultMemoryMB, Cores: defaultCores}
	if v, ok := props["spark.driver.memory"]; ok {
		mb, err := parseMemoryMB(v)
		if err != nil {
			return nil, err
		}
		if mb < 1 {
			return nil, invalidField("Property 'spark.driver.memory' expected memory value: actual was '%s', less than one MiB; a number without a unit counts bytes.", clip(v))
		}
		d.Mem = mb
	}
	if v, ok := props["spark.driver.cores"]; ok {
		n, err := parseCores(v)
		if err != nil {
			return nil, err
		}
		d.Cores = n
	}
	d.Supervise = strings.EqualFold(props["spark.driver.supervise"], "true")
	var err error
	if d.ResourceReqs, err = resourceRequirements(props); err != nil {
		return nil, err
	}
	d.Command = sparkmsg.Command{
		MainClass:          driverWrapper,
		Arguments:          arguments(req, props),
		Environment:        h.environment(req),
		ClassPathEntries:   splitPath(props["spark.driver.extraClassPath"]),
		LibraryPathEntries: splitPath(props["spark.driver.extraLibraryPath"]),
		JavaOpts:           javaOptions(req.ClientSparkVersion, props),
	}
	return d, nil
}

// placeholder replaces a value that is exactly {{NAME}}, where this master gives that variable away. Spark gives away
// every one of its environment to whoever submits (G-65).
func (h *Handler) placeholder(v string) string {
	name, ok := strings.CutPrefix(v, "{{")
	if !ok || h.opts.PlaceholderEnv == nil {
		return v
	}
	if name, ok = strings.CutSuffix(name, "}}"); !ok {
		return v
	}
	if value, ok := h.opts.PlaceholderEnv(name); ok {
		return value
	}
	return v
}

// arguments are those of the driver wrapper; the worker fills in the first two.
func arguments(req *request, props map[string]string) []string {
	args := []string{"{{WORKER_URL}}", "{{USER_JAR}}", req.MainClass}
	if name, ok := props["spark.app.name"]; ok && req.MainClass == sparkSubmit {
		args = append(args, "-c", "spark.app.name="+name)
	}
	return append(args, req.AppArgs...)
}

// environment leaves out what belongs to the client's machine.
func (h *Handler) environment(req *request) []sparkmsg.EnvVar {
	var out []sparkmsg.EnvVar
	for _, name := range slices.Sorted(maps.Keys(req.EnvironmentVariables)) {
		if name == "SPARK_LOCAL_IP" || name == "SPARK_LOCAL_HOSTNAME" {
			continue
		}
		out = append(out, sparkmsg.EnvVar{Name: name, Value: h.placeholder(req.EnvironmentVariables[name])})
	}
	return out
}

func javaOptions(clientVersion string, props map[string]string) []string {
	var opts []string
	if !isSpark3(clientVersion) {
		opts = append(opts, moduleOptions...)
	}
	for _, key := range slices.Sorted(maps.Keys(props)) {
		opts = append(opts, "-D"+key+"="+props[key])
	}
	opts = append(opts, splitCommand(props["spark.driver.defaultJavaOptions"])...)
	return append(opts, splitCommand(props["spark.driver.extraJavaOptions"])...)
}

// isSpark3 tells releases whose own server adds no module options. A client that names no release of Spark 3 or before
// gets what this server's version adds.
func isSpark3(clientVersion string) bool {
	major, _, ok := strings.Cut(clientVersion, ".")
	n, err := strconv.Atoi(major)
	return ok && err == nil && n <= 3
}

// moduleOptions are what a 4.3.0 server adds, as recorded from the command line of a driver. The first option makes a JVM
// pass over those that it does not know, so that other releases of Spark 4 and older JVMs take them too.
var moduleOptions = []string{
	"-XX:+IgnoreUnrecognizedVMOptions",
	"--add-modules=jdk.incubator.vector",
	"--add-opens=java.base/java.lang=ALL-UNNAMED",
	"--add-opens=java.base/java.lang.invoke=ALL-UNNAMED",
	"--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
	"--add-opens=java.base/java.io=ALL-UNNAMED",
	"--add-opens=java.base/java.net=ALL-UNNAMED",
	"--add-opens=java.base/java.nio=ALL-UNNAMED",
	"--add-opens=java.base/java.util=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
	"--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
	"--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
	"--add-opens=java.base/sun.nio.cs=ALL-UNNAMED",
	"--add-opens=java.base/sun.security.action=ALL-UNNAMED",
	"--add-opens=java.base/sun.util.calendar=ALL-UNNAMED",
	"--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
	"-Dio.netty.tryReflectionSetAccessible=true",
	"-Dio.netty.allocator.type=pooled",
	"-Dio.netty.handler.ssl.defaultEndpointVerificationAlgorithm=NONE",
	"--sun-misc-unsafe-memory-access=allow",
	"--enable-native-access=ALL-UNNAMED",
}

// resourceRequirements reads spark.driver.resource.NAME.amount (resource/ResourceUtils.scala).
func resourceRequirements(props map[string]string) ([]sparkmsg.ResourceRequirement, error) {
	names := map[string]bool{}
	for key := range props {
		if rest, ok := strings.CutPrefix(key, resourcePrefix); ok {
			name, _, _ := strings.Cut(rest, ".")
			names[name] = true
		}
	}
	var out []sparkmsg.ResourceRequirement
	for _, name := range slices.Sorted(maps.Keys(names)) {
		key := resourcePrefix + name + ".amount"
		v, ok := props[key]
		if !ok {
			return nil, invalidField("You must specify an amount for %s: '%s' is missing.", clip(name), clip(key))
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		if err != nil || n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
			return nil, invalidField("Property '%s' expected whole number value: actual was '%s'.", clip(key), clip(v))
		}
		if n > 0 {
			out = append(out, sparkmsg.ResourceRequirement{ResourceName: name, Amount: int32(n), NumParts: 1})
		}
	}
	return out, nil
}
