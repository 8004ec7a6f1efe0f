package rest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"raftmaster/transport/sparkmsg"
)

// submission is a valid body with these properties and variables.
func submission(version string, props, env map[string]string) string {
	q := func(m map[string]string) string {
		var parts []string
		for k, v := range m {
			parts = append(parts, fmt.Sprintf("%q:%q", k, v))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	return fmt.Sprintf(`{"action":"CreateSubmissionRequest","clientSparkVersion":%q,"appResource":"hdfs:/a.jar","mainClass":"a.Main",`+
		`"appArgs":["x","y z"],"sparkProperties":%s,"environmentVariables":%s}`, version, q(props), q(env))
}

func describe(t *testing.T, opts Options, body string) (*sparkmsg.DriverDescription, error) {
	t.Helper()
	req, err := decodeRequest([]byte(body))
	if err != nil {
		return nil, err
	}
	return NewHandler(opts).describe(req)
}

func TestDefaultsOfADriver(t *testing.T) {
	d, err := describe(t, options(&fake{}), submission("3.5.9", nil, nil))
	if err != nil {
		t.Fatal(err)
	}
	want := &sparkmsg.DriverDescription{JarURL: "hdfs:/a.jar", Mem: 1024, Cores: 1, Command: sparkmsg.Command{
		MainClass: driverWrapper, Arguments: []string{"{{WORKER_URL}}", "{{USER_JAR}}", "a.Main", "x", "y z"},
		JavaOpts: []string{"-Dspark.master=" + cluster}}}
	if diff := cmp.Diff(want, d, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestEverySettingOfADriver(t *testing.T) {
	d, err := describe(t, options(&fake{}), submission("3.5.9", map[string]string{
		"spark.driver.memory": "3g", "spark.driver.cores": "4", "spark.driver.supervise": "TRUE",
		"spark.driver.extraClassPath": "/a:/b", "spark.driver.extraLibraryPath": "/l",
		"spark.driver.defaultJavaOptions": "-Da=1 -Db='x y'", "spark.driver.extraJavaOptions": `-Dc="q \" r"`,
		"spark.driver.resource.gpu.amount": "2", "spark.driver.resource.gpu.discoveryScript": "/s", "spark.driver.resource.fpga.amount": "0",
		"spark.app.name": "n",
	}, map[string]string{"SPARK_LOCAL_IP": "1", "SPARK_LOCAL_HOSTNAME": "h", "SPARK_LOCAL_DIRS": "/d", "B": "2"}))
	if err != nil {
		t.Fatal(err)
	}
	c := d.Command
	if d.Mem != 3072 || d.Cores != 4 || !d.Supervise || !slices.Equal(c.ClassPathEntries, []string{"/a", "/b"}) ||
		!slices.Equal(c.LibraryPathEntries, []string{"/l"}) ||
		!slices.Equal(c.Environment, []sparkmsg.EnvVar{{Name: "B", Value: "2"}, {Name: "SPARK_LOCAL_DIRS", Value: "/d"}}) ||
		!slices.Equal(d.ResourceReqs, []sparkmsg.ResourceRequirement{{ResourceName: "gpu", Amount: 2, NumParts: 1}}) {
		t.Errorf("%+v", d)
	}
	if tail := c.JavaOpts[len(c.JavaOpts)-3:]; !slices.Equal(tail, []string{"-Da=1", "-Db=x y", `-Dc=q " r`}) {
		t.Errorf("%q", tail)
	}
	for _, o := range []string{"-Dspark.driver.memory=3g", "-Dspark.app.name=n", "-Dspark.master=" + cluster} {
		if !slices.Contains(c.JavaOpts, o) {
			t.Errorf("%s is missing in %q", o, c.JavaOpts)
		}
	}
	if slices.Contains(c.Arguments, "-c") {
		t.Errorf("-c is for SparkSubmit only: %q", c.Arguments)
	}
}

// TestS12_EveryMasterIsNamed: whatever list the client used, the driver gets the whole one, once.
func TestS12_EveryMasterIsNamed(t *testing.T) {
	for _, given := range []string{"spark://a:6066", "spark://a:6066,b:6066,c:6066", "spark://elsewhere:7077", "", "-"} {
		props := map[string]string{"spark.master": given}
		if given == "-" {
			props = nil
		}
		d, err := describe(t, options(&fake{}), submission("3.5.9", props, nil))
		if err != nil || !slices.Equal(d.Command.JavaOpts, []string{"-Dspark.master=" + cluster}) {
			t.Errorf("%q: %+v, %v", given, d, err)
		}
	}
	d, err := describe(t, options(&fake{}), submission("3.5.9", map[string]string{"spark.master": "local[2]"}, nil))
	if err != nil || !slices.Equal(d.Command.JavaOpts, []string{"-Dspark.master=local[2]"}) {
		t.Errorf("%+v, %v", d, err)
	}
}

// TestModuleOptionsFollowTheClient: only releases whose own server adds them get them.
func TestModuleOptionsFollowTheClient(t *testing.T) {
	for version, want := range map[string]bool{"3.3.4": false, "3.5.9": false, "2.4.0": false, "4.0.0": true, "4.3.0-SNAPSHOT": true, "x": true, "1": true} {
		d, err := describe(t, options(&fake{}), submission(version, nil, nil))
		if err != nil || slices.Contains(d.Command.JavaOpts, "-XX:+IgnoreUnrecognizedVMOptions") != want {
			t.Errorf("%s: %+v, %v", version, d, err)
		}
	}
}

// TestG65_TheEnvironmentOfTheMasterIsItsOwn unless a name is given away.
func TestG65_TheEnvironmentOfTheMasterIsItsOwn(t *testing.T) {
	t.Setenv("REST_SECRET", "hunter2")
	body := submission("3.5.9", map[string]string{"p": "{{REST_SECRET}}", "q": "{{ZONE}}", "r": "x{{ZONE}}", "s": "{{}}", "t": "{{NONE}}"},
		map[string]string{"E": "{{ZONE}}", "F": "{{REST_SECRET}}"})
	d, err := describe(t, options(&fake{}), body)
	if text := fmt.Sprintf("%+v", d); err != nil || strings.Contains(text, "hunter2") || !strings.Contains(text, "-Dp={{REST_SECRET}}") {
		t.Errorf("%s, %v", text, err)
	}
	opts := options(&fake{})
	opts.PlaceholderEnv = func(name string) (string, bool) { return "z-1", name == "ZONE" }
	if d, err = describe(t, opts, body); err != nil {
		t.Fatal(err)
	}
	want := []string{"-Dp={{REST_SECRET}}", "-Dq=z-1", "-Dr=x{{ZONE}}", "-Ds={{}}", "-Dspark.master=" + cluster, "-Dt={{NONE}}"}
	if !slices.Equal(d.Command.JavaOpts, want) {
		t.Errorf("%q", d.Command.JavaOpts)
	}
	if want := []sparkmsg.EnvVar{{Name: "E", Value: "z-1"}, {Name: "F", Value: "{{REST_SECRET}}"}}; !slices.Equal(d.Command.Environment, want) {
		t.Errorf("%v", d.Command.Environment)
	}
	opts.PlaceholderEnv = func(string) (string, bool) { return "lots", true }
	if _, err := describe(t, opts, submission("4.0.0", map[string]string{"spark.driver.cores": "{{N}}"}, nil)); err == nil {
		t.Error("a placeholder among numbers gave a text") // refused already as written, as in Spark
	}
}

func TestAllowedResources(t *testing.T) {
	opts := options(&fake{submit: Submitted{ID: "d", Success: true}})
	opts.AllowedAppResources = []*regexp.Regexp{regexp.MustCompile(`hdfs:/[a-z]+\.jar`), regexp.MustCompile(`local:.*`),
		regexp.MustCompile(`s3:/a|s3:/ab`), regexp.MustCompile(`gs:/.*?`)}
	h := NewHandler(opts)
	for resource, status := range map[string]int{"hdfs:/a.jar": 200, "local:/x": 200, "s3:/ab": 200, "gs:/x": 200, "s3:/abc": 400, "hdfs:/a.jar.evil": 400, "evil hdfs:/a.jar": 400, "": 400, "file:/a.jar": 400} {
		resp, body := ask(t, h, "POST", base+"/create", strings.Replace(minimal, "file:/a.jar", resource, 1))
		if resp.StatusCode != status || (status == 400 && !strings.Contains(body, "Valid application jar path is required")) {
			t.Errorf("%q: %d %s", resource, resp.StatusCode, body)
		}
	}
}

// TestBindsForEveryFamily: what was built can be sent to a worker of any release, and read back there as it was built.
func TestBindsForEveryFamily(t *testing.T) {
	for _, fam := range sparkmsg.AllFamilies.Families() {
		d, err := describe(t, options(&fake{}), submission("4.3.0", map[string]string{"spark.app.name": "ä€😀", "spark.driver.resource.gpu.amount": "1"},
			map[string]string{"A": "1", "B": "2", "C": "3", "D": "4", "E": "5", "F": "6"}))
		if err != nil {
			t.Fatal(err)
		}
		want := *d
		if err := d.Bind(fam); err != nil {
			t.Fatalf("%s: %v", fam, err)
		}
		payload, err := d.MarshalPayload()
		if err != nil {
			t.Fatalf("%s: %v", fam, err)
		}
		got, err := sparkmsg.ParseDriverDescription(payload)
		if err != nil {
			t.Fatalf("%s: %v", fam, err)
		}
		got.Graph = nil
		slices.SortFunc(got.Command.Environment, func(a, b sparkmsg.EnvVar) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(&want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", fam, diff)
		}
	}
}
