package submit

import (
	"fmt"
	"maps"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"raftmaster/transport/rest"
	"raftmaster/transport/sparkmsg"
)

// Job is a driver to run in cluster mode. A zero field means what spark-submit does without it.
type Job struct {
	// Resource is the URL of a jar, or of a .py file, which is run by SparkSubmit on its worker. It must be readable
	// from there. A path without a scheme is one of file:.
	Resource  string
	MainClass string
	Args      []string
	// Name is spark.app.name; the one of Conf, else the main class, or the name of the .py file.
	Name string
	// Cores and MemoryMB are what the driver takes of its worker; those of Conf, else 1 and 1024.
	Cores, MemoryMB int
	// Supervise: start it again when it fails.
	Supervise bool
	// Conf has properties that begin with "spark.".
	Conf map[string]string
	// Environment is that of the driver's process; see SparkEnvironment.
	Environment map[string]string
	// ClassPath, LibraryPath and JavaOptions replace spark.driver.extraClassPath, extraLibraryPath and extraJavaOptions
	// of Conf where they are not empty, as the flags of spark-submit do.
	ClassPath, LibraryPath, JavaOptions []string
	// Submitted is said as spark.app.submitTime; now.
	Submitted time.Time
}

const (
	defaultCores    = 1
	defaultMemoryMB = 1024
	// clientAskTimeout is what deploy.Client sets for itself, and so for its driver, when spark.rpc.askTimeout is unset.
	clientAskTimeout = "10s"
)

// SparkEnvironment picks from an environment (NAME=VALUE) what spark-submit hands on to a driver
// (deploy/rest/RestSubmissionClient.scala, filterSystemEnvironment): variables of Spark, but for those that belong to the
// submitter's machine.
func SparkEnvironment(environ []string) map[string]string {
	out := map[string]string{}
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !strings.HasPrefix(name, "SPARK_") {
			continue
		}
		switch name {
		case "SPARK_ENV_LOADED", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME":
			continue
		}
		out[name] = value
	}
	return out
}

// Validate checks what can be known before anything is sent. The error is an *InvalidError.
func (j *Job) Validate() error {
	if err := j.checkResource(); err != nil {
		return err
	}
	if j.MainClass == "" && !j.python() {
		return invalid("the main class", "it is not given; only a .py file needs none")
	}
	if j.MainClass != "" && j.python() {
		return invalid("the main class", "a .py file has none")
	}
	if j.Cores < 0 || j.Cores > math.MaxInt32 || j.MemoryMB < 0 || j.MemoryMB > math.MaxInt32 {
		return invalid("the driver's cores and memory", "%d and %d MiB are out of range", j.Cores, j.MemoryMB)
	}
	for _, k := range slices.Sorted(maps.Keys(j.Conf)) {
		if !strings.HasPrefix(k, "spark.") {
			return invalid("property "+strconv.Quote(clip(k)), "its name must begin with spark.")
		}
	}
	for k := range j.Environment {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return invalid("variable "+strconv.Quote(clip(k)), "that is no name of an environment variable")
		}
	}
	return j.checkText()
}

// python tells whether the resource is run by SparkSubmit on the worker.
func (j *Job) python() bool { return strings.HasSuffix(j.Resource, ".py") }

func (j *Job) checkResource() error {
	if j.Resource == "" {
		return invalid("the jar", "it is not given")
	}
	u, err := url.Parse(j.Resource)
	if err != nil {
		return invalid("the jar "+strconv.Quote(clip(j.Resource)), "it is no URL")
	}
	if u.Scheme != "" && u.Scheme != "file" {
		if u.Opaque != "" || u.Scheme != "local" && u.Host == "" && u.Path == "" {
			return invalid("the jar "+strconv.Quote(clip(j.Resource)), "its URL names no file")
		}
	} else if st, err := os.Stat(u.Path); err == nil && st.IsDir() {
		return invalid("the jar "+strconv.Quote(clip(j.Resource)), "that is a directory; give the file itself")
	}
	if path := u.Path; !strings.HasSuffix(path, ".jar") && !strings.HasSuffix(path, ".py") {
		return invalid("the jar "+strconv.Quote(clip(j.Resource)), "its name must end in .jar, or in .py for a Python program")
	}
	return nil
}

// OnlyHere tells that the resource is a file of each machine, such as file:/x.jar: it must be there on the workers.
func (j *Job) OnlyHere() bool {
	u, err := url.Parse(j.Resource)
	return err == nil && (u.Scheme == "" || u.Scheme == "file" || u.Scheme == "local")
}

// checkText refuses NUL, which can be in no argument, variable or property of a process.
func (j *Job) checkText() error {
	texts := slices.Concat([]string{j.Resource, j.MainClass, j.Name}, j.Args, j.ClassPath, j.LibraryPath, j.JavaOptions)
	for _, m := range []map[string]string{j.Conf, j.Environment} {
		for k, v := range m {
			texts = append(texts, k, v)
		}
	}
	for _, s := range texts {
		if strings.ContainsRune(s, 0) {
			return invalid("the job", "%q holds a NUL character", clip(s))
		}
	}
	return nil
}

// resourceURL is the resource with its scheme (Utils.resolveURI).
func (j *Job) resourceURL() string {
	u, err := url.Parse(j.Resource)
	if err != nil || u.Scheme != "" {
		return j.Resource
	}
	abs, err := filepath.Abs(u.Path)
	if err != nil {
		return j.Resource
	}
	return "file:" + abs
}

// program is what the driver's process runs: the jar that the worker fetches, the main class and its arguments. A worker
// fetches nothing for a Python program: SparkSubmit does.
func (j *Job) program() (jar, mainClass string, args []string) {
	if j.python() {
		return "", rest.SparkSubmitClass, append([]string{j.resourceURL()}, j.Args...)
	}
	return j.resourceURL(), j.MainClass, j.Args
}

// properties are those that spark-submit would send with the job to the masters (deploy/SparkSubmit.scala).
func (j *Job) properties(masterURL string) map[string]string {
	p := maps.Clone(j.Conf)
	if p == nil {
		p = map[string]string{}
	}
	jar, mainClass, _ := j.program()
	name := j.Name
	if name == "" {
		name = p["spark.app.name"]
	}
	if name == "" {
		name = mainClass
		if j.python() {
			name = filepath.Base(j.Resource)
		}
	}
	submitted := j.Submitted
	if submitted.IsZero() {
		submitted = time.Now()
	}
	p["spark.app.name"], p["spark.master"] = name, masterURL
	p["spark.app.submitTime"] = strconv.FormatInt(submitted.UnixMilli(), 10)
	if j.python() {
		p["spark.submit.deployMode"] = "client" // the driver is SparkSubmit, which runs the program in its own process
	} else {
		p["spark.submit.deployMode"] = "cluster"
		p["spark.jars"] = strings.TrimPrefix(p["spark.jars"]+","+jar, ",")
	}
	if _, ok := p["spark.submit.pyFiles"]; !ok {
		p["spark.submit.pyFiles"] = ""
	}
	if _, ok := p["spark.driver.supervise"]; !ok || j.Supervise {
		p["spark.driver.supervise"] = strconv.FormatBool(j.Supervise)
	}
	if j.Cores > 0 {
		p["spark.driver.cores"] = strconv.Itoa(j.Cores)
	}
	if j.MemoryMB > 0 {
		p["spark.driver.memory"] = strconv.Itoa(j.MemoryMB) + "m"
	}
	set := func(key, value string) {
		if value != "" {
			p[key] = value
		}
	}
	set("spark.driver.extraClassPath", strings.Join(j.ClassPath, ":"))
	set("spark.driver.extraLibraryPath", strings.Join(j.LibraryPath, ":"))
	set("spark.driver.extraJavaOptions", joinCommand(j.JavaOptions))
	return p
}

// Description is the driver that deploy.Client makes of the job (deploy/Client.scala). masterURL is what the driver gets
// as spark.master.
func (j *Job) Description(masterURL string) (*sparkmsg.DriverDescription, error) {
	if err := j.Validate(); err != nil {
		return nil, err
	}
	p := j.properties(masterURL)
	if _, ok := p["spark.rpc.askTimeout"]; !ok {
		p["spark.rpc.askTimeout"] = clientAskTimeout
	}
	jar, mainClass, args := j.program()
	d := &sparkmsg.DriverDescription{JarURL: jar, Cores: defaultCores, Mem: defaultMemoryMB}
	if err := j.fill(d, p); err != nil {
		return nil, err
	}
	arguments := []string{"{{WORKER_URL}}", "{{USER_JAR}}", mainClass}
	if j.python() {
		arguments = append(arguments, "-c", "spark.app.name="+p["spark.app.name"])
	}
	d.Command = sparkmsg.Command{
		MainClass: rest.DriverWrapperClass, Arguments: append(arguments, args...),
		ClassPathEntries:   rest.SplitPath(p["spark.driver.extraClassPath"]),
		LibraryPathEntries: rest.SplitPath(p["spark.driver.extraLibraryPath"]),
	}
	for _, name := range slices.Sorted(maps.Keys(j.Environment)) {
		d.Command.Environment = append(d.Command.Environment, sparkmsg.EnvVar{Name: name, Value: j.Environment[name]})
	}
	for _, key := range slices.Sorted(maps.Keys(p)) {
		d.Command.JavaOpts = append(d.Command.JavaOpts, "-D"+key+"="+p[key])
	}
	for _, key := range []string{"spark.driver.defaultJavaOptions", "spark.driver.extraJavaOptions"} {
		d.Command.JavaOpts = append(d.Command.JavaOpts, rest.SplitCommand(p[key])...)
	}
	return d, nil
}

// fill takes the size of the driver from its properties, by the rules of the REST server.
func (j *Job) fill(d *sparkmsg.DriverDescription, p map[string]string) error {
	if v, ok := p["spark.driver.memory"]; ok {
		mb, err := rest.ParseMemoryMB(v)
		if err != nil || mb < 1 {
			return invalid("spark.driver.memory", "%q is no memory of at least 1 MiB, such as 512m or 2g; a number without a unit counts bytes", clip(v))
		}
		d.Mem = mb
	}
	if v, ok := p["spark.driver.cores"]; ok {
		n, err := strconv.ParseInt(v, 10, 32)
		if err != nil || n < 1 {
			return invalid("spark.driver.cores", "%q is no number of cores", clip(v))
		}
		d.Cores = int32(n)
	}
	supervise := p["spark.driver.supervise"]
	if !strings.EqualFold(supervise, "true") && !strings.EqualFold(supervise, "false") {
		return invalid("spark.driver.supervise", "%q is neither true nor false", clip(supervise))
	}
	d.Supervise = strings.EqualFold(supervise, "true")
	var err error
	if d.ResourceReqs, err = rest.ResourceRequirements(p); err != nil {
		return invalid("the driver's resources", "%v", err)
	}
	return nil
}

// createRequest is a CreateSubmissionRequest (deploy/rest/SubmitRestProtocolRequest.scala).
type createRequest struct {
	Action               string            `json:"action"`
	AppArgs              []string          `json:"appArgs"`
	AppResource          string            `json:"appResource"`
	ClientSparkVersion   string            `json:"clientSparkVersion"`
	EnvironmentVariables map[string]string `json:"environmentVariables"`
	MainClass            string            `json:"mainClass"`
	SparkProperties      map[string]string `json:"sparkProperties"`
}

// request is the message that RestSubmissionClient makes of the job.
func (j *Job) request(masterURL, version string) (*createRequest, error) {
	// The description is made for its checks: the server would make them after the request was sent.
	if _, err := j.Description(masterURL); err != nil {
		return nil, err
	}
	jar, mainClass, args := j.program()
	r := &createRequest{Action: "CreateSubmissionRequest", AppArgs: args, AppResource: jar, ClientSparkVersion: version,
		EnvironmentVariables: j.Environment, MainClass: mainClass, SparkProperties: j.properties(masterURL)}
	if r.AppArgs == nil {
		r.AppArgs = []string{}
	}
	if r.EnvironmentVariables == nil {
		r.EnvironmentVariables = map[string]string{}
	}
	return r, nil
}

// Look says how to recognise the job among the drivers of a cluster.
func (j *Job) look(since time.Time) string {
	_, mainClass, _ := j.program()
	return fmt.Sprintf("a driver of main class %s, submitted at %s or within seconds of it", clip(mainClass), since.UTC().Format("2006-01-02 15:04:05 MST"))
}

// joinCommand writes words so that SplitCommand gives them back.
func joinCommand(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if w != "" && !strings.ContainsAny(w, " \t\r\n\"'") {
			out[i] = w
			continue
		}
		out[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`
	}
	return strings.Join(out, " ")
}

// clip bounds a text that is shown.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
