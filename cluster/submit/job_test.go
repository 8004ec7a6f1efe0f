package submit

import (
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"raftmaster/transport/rest"
	"raftmaster/transport/sparkmsg"
)

// recorded is the job of the recordings below: spark-submit --deploy-mode cluster --class a.Main --name nm --driver-memory
// 700m --driver-cores 2 --supervise --driver-class-path /a:/b --driver-library-path /l1:/l2 --driver-java-options
// '-Dx=1 "-Dy=a b"' --conf spark.driver.resource.gpu.amount=1 --conf spark.cores.max=3 --jars http://h/x.jar JAR ARGS.
func recorded() Job {
	return Job{
		Resource: "http://127.0.0.1:1/j.jar", MainClass: "a.Main", Args: []string{"arg1", "arg 2"}, Name: "nm", Cores: 2, MemoryMB: 700,
		Supervise: true, Environment: map[string]string{"SPARK_SAMPLE": "1"}, ClassPath: []string{"/a", "/b"}, LibraryPath: []string{"/l1", "/l2"},
		JavaOptions: []string{"-Dx=1", "-Dy=a b"}, Submitted: time.UnixMilli(1796072806003),
		Conf: map[string]string{"spark.driver.resource.gpu.amount": "1", "spark.cores.max": "3", "spark.jars": "http://h/x.jar"},
	}
}

// recordedProperties are those of a request of spark-submit 4.3.0 to a REST gateway.
const recordedProperties = `{
	"spark.driver.extraLibraryPath": "/l1:/l2", "spark.jars": "http://h/x.jar,http://127.0.0.1:1/j.jar", "spark.driver.memory": "700m",
	"spark.submit.pyFiles": "", "spark.driver.cores": "2", "spark.driver.extraJavaOptions": "-Dx=1 \"-Dy=a b\"",
	"spark.submit.deployMode": "cluster", "spark.master": "spark://127.0.0.1:28166", "spark.driver.extraClassPath": "/a:/b",
	"spark.driver.resource.gpu.amount": "1", "spark.driver.supervise": "true", "spark.app.name": "nm", "spark.cores.max": "3",
	"spark.app.submitTime": "1796072806003"}`

// TestDescriptionAsRecorded compares with what spark-submit 3.5.9 and 4.3.0 sent through the RPC gateway (B-134): both the
// same but for the order of the properties, and for the environment, of which 3.5.9 sent everything.
func TestDescriptionAsRecorded(t *testing.T) {
	job := recorded()
	got, err := job.Description("spark://127.0.0.1:28177")
	if err != nil {
		t.Fatal(err)
	}
	var props map[string]string
	if err := json.Unmarshal([]byte(recordedProperties), &props); err != nil {
		t.Fatal(err)
	}
	props["spark.master"], props["spark.rpc.askTimeout"] = "spark://127.0.0.1:28177", "10s"
	var opts []string
	for _, k := range slices.Sorted(maps.Keys(props)) {
		opts = append(opts, "-D"+k+"="+props[k])
	}
	want := &sparkmsg.DriverDescription{JarURL: "http://127.0.0.1:1/j.jar", Mem: 700, Cores: 2, Supervise: true,
		ResourceReqs: []sparkmsg.ResourceRequirement{{ResourceName: "gpu", Amount: 1, NumParts: 1}},
		Command: sparkmsg.Command{MainClass: "org.apache.spark.deploy.worker.DriverWrapper",
			Arguments:        []string{"{{WORKER_URL}}", "{{USER_JAR}}", "a.Main", "arg1", "arg 2"},
			Environment:      []sparkmsg.EnvVar{{Name: "SPARK_SAMPLE", Value: "1"}},
			ClassPathEntries: []string{"/a", "/b"}, LibraryPathEntries: []string{"/l1", "/l2"},
			JavaOpts: append(opts, "-Dx=1", "-Dy=a b")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRequestAsRecorded compares with the body that spark-submit 4.3.0 posted (http.md 5).
func TestRequestAsRecorded(t *testing.T) {
	job := recorded()
	got, err := job.request("spark://127.0.0.1:28166", "4.3.0")
	if err != nil {
		t.Fatal(err)
	}
	want := &createRequest{Action: "CreateSubmissionRequest", AppArgs: []string{"arg1", "arg 2"}, AppResource: "http://127.0.0.1:1/j.jar",
		ClientSparkVersion: "4.3.0", EnvironmentVariables: map[string]string{"SPARK_SAMPLE": "1"}, MainClass: "a.Main"}
	if err := json.Unmarshal([]byte(recordedProperties), &want.SparkProperties); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestBothGatewaysAgree turns a job into a driver the one way and the other: only what the REST server adds differs.
func TestBothGatewaysAgree(t *testing.T) {
	for name, job := range map[string]Job{
		"jar":    recorded(),
		"plain":  {Resource: "http://h/j.jar", MainClass: "a.Main"},
		"python": {Resource: "http://h/app.py", Args: []string{"7"}, Name: "n", Conf: map[string]string{"spark.driver.memory": "1g"}},
	} {
		t.Run(name, func(t *testing.T) {
			rpc, err := job.Description("spark://m:7077")
			if err != nil {
				t.Fatal(err)
			}
			sent := serverSees(t, job)
			rpc.Command.JavaOpts = without(rpc.Command.JavaOpts, "-Dspark.rpc.askTimeout=", "-Dspark.app.submitTime=")
			sent.Command.JavaOpts = without(sent.Command.JavaOpts, "-Dspark.app.submitTime=")
			if diff := cmp.Diff(rpc, sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// serverSees is the driver that the REST server of this project makes of the job's request by a client of Spark 3, whose
// drivers get no module options.
func serverSees(t *testing.T, job Job) *sparkmsg.DriverDescription {
	t.Helper()
	backend := &fakeBackend{}
	s := startREST(t, backend, "spark://m:7077")
	c := newREST(t, Config{Masters: []string{s}, SparkVersion: "3.5.9"})
	if _, err := c.Submit(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	return backend.submitted[0].Description
}

func without(opts []string, prefixes ...string) []string {
	return slices.DeleteFunc(slices.Clone(opts), func(o string) bool {
		return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(o, p) })
	})
}

func TestJobThatCannotWork(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"no jar":       {Job{MainClass: "a"}, "not given"},
		"no class":     {Job{Resource: "x.jar"}, "main class"},
		"directory":    {Job{Resource: dir, MainClass: "a"}, "directory"},
		"file URL dir": {Job{Resource: "file://" + dir, MainClass: "a"}, "directory"},
		"no jar name":  {Job{Resource: "http://h/x.txt", MainClass: "a"}, ".jar"},
		"class for py": {Job{Resource: "x.py", MainClass: "a"}, "has none"},
		"opaque":       {Job{Resource: "mailto:x.jar", MainClass: "a"}, "names no file"},
		"property":     {Job{Resource: "x.jar", MainClass: "a", Conf: map[string]string{"hadoop.x": "1"}}, "spark."},
		"variable":     {Job{Resource: "x.jar", MainClass: "a", Environment: map[string]string{"A=B": "1"}}, "no name"},
		"NUL":          {Job{Resource: "x.jar", MainClass: "a", Args: []string{"a\x00b"}}, "NUL"},
		"cores":        {Job{Resource: "x.jar", MainClass: "a", Cores: -1}, "out of range"},
		"memory":       {Job{Resource: "x.jar", MainClass: "a", Conf: map[string]string{"spark.driver.memory": "512"}}, "counts bytes"},
		"cores conf":   {Job{Resource: "x.jar", MainClass: "a", Conf: map[string]string{"spark.driver.cores": "many"}}, "no number"},
		"supervise":    {Job{Resource: "x.jar", MainClass: "a", Conf: map[string]string{"spark.driver.supervise": "yes"}}, "neither"},
		"resource":     {Job{Resource: "x.jar", MainClass: "a", Conf: map[string]string{"spark.driver.resource.gpu.vendor": "v"}}, "amount"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.job.Description("spark://m:7077")
			var invalid *InvalidError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an InvalidError with %q", err, c.want)
			}
		})
	}
}

func TestJoinCommandIsSplitAgain(t *testing.T) {
	for _, words := range [][]string{nil, {"a"}, {"a b", `c"d`, `e\f`, "", "g'h"}, {`x\ y"`}, {"-Dx=1", "-Dy=a b"}} {
		if got := rest.SplitCommand(joinCommand(words)); !slices.Equal(got, words) {
			t.Errorf("%q became %q by way of %s", words, got, joinCommand(words))
		}
	}
}

func TestSparkEnvironment(t *testing.T) {
	got := SparkEnvironment([]string{"SPARK_A=1=2", "PATH=/bin", "SPARK_HOME=/x", "SPARK_CONF_DIR=/y", "SPARK_ENV_LOADED=1", "SPARK_LOCAL_IP=1.2.3.4", "SPARK_B"})
	if want := map[string]string{"SPARK_A": "1=2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestParseMasters(t *testing.T) {
	for _, c := range []struct {
		g       Gateway
		list    string
		scheme  string
		masters string
		err     string
	}{
		{GatewayRPC, "spark://a:7077,b:7078", "http", "a:7077,b:7078", ""},
		{GatewayRPC, "a, b:1,", "http", "a:7077,b:1", ""},
		{GatewayREST, "spark://a:6066,b", "http", "a:6066,b:6066", ""},
		{GatewayREST, "https://a:6066/,https://b:1/v1", "https", "a:6066,b:1", ""},
		{GatewayRPC, "spark://[::1]:7077,[::2]", "http", "[::1]:7077,[::2]:7077", ""},
		{GatewayRPC, "http://a:8080", "", "", "cluster port"},
		{GatewayREST, "http://a:6066,https://b:6066", "", "", "mixed"},
		{GatewayREST, "yarn://a", "", "", "no Standalone master"},
		{GatewayRPC, "spark://a:0", "", "", "not HOST:PORT"},
		{GatewayRPC, "spark://a:99999", "", "", "not HOST:PORT"},
		{GatewayRPC, "::1", "", "", "not HOST:PORT"},
		{GatewayRPC, " , ", "", "", "give 1 to"},
		{GatewayRPC, strings.Repeat("h:1,", 65), "", "", "give 1 to"},
	} {
		scheme, masters, err := ParseMasters(c.g, c.list)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s %q: got %v, want an error with %q", c.g, c.list, err, c.err)
			}
			continue
		}
		if err != nil || scheme != c.scheme || strings.Join(masters, ",") != c.masters {
			t.Errorf("%s %q: got %s %v %v", c.g, c.list, scheme, masters, err)
		}
	}
}
