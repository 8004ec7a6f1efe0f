package master

import (
	"slices"
	"strings"
	"testing"

	"raftmaster/fsm"
	"raftmaster/transport/sparkmsg"
)

var threeMasters = []sparkmsg.Address{{Host: "a", Port: 7077}, {Host: "b", Port: 7077}, {Host: "c", Port: 7078}}

// S12: which values of spark.master are completed, and how.
func TestS12_CompleteMasters(t *testing.T) {
	const all = "spark://a:7077,b:7077,c:7078"
	for url, want := range map[string]string{
		"spark://a:7077":                    all,
		"spark://B:7077":                    all,
		"spark://c:7078,a:7077":             all,
		all:                                 "",
		"spark://c:7078,b:7077,a:7077":      "",
		"spark://a:7077,proxy:1":            "spark://a:7077,proxy:1,b:7077,c:7078",
		"spark://proxy:7077":                "",
		"spark://c:7077":                    "",
		"local[2]":                          "",
		"spark://":                          "",
		"spark://a":                         "",
		"spark://a:7077,b:7077,c:7078,d:99": "",
	} {
		got, changed := completeMasters(url, threeMasters)
		if got != want || changed != (want != "") {
			t.Errorf("%s becomes %q (%t), want %q", url, got, changed, want)
		}
	}
	if _, changed := completeMasters("spark://a:7077", threeMasters[:1]); changed {
		t.Error("a cluster of one changes what names it")
	}
}

// S12: what both gateways are given is stored with all masters, and nothing else of it changes.
func TestS12_DriverIsLaunchedWithAllMasters(t *testing.T) {
	one := func(d *sparkmsg.DriverDescription) {
		d.Command.JavaOpts = []string{"-Dspark.app.name=job", "-Dspark.master=spark://b:7077", "-Xmx1g"}
	}
	for name, desc := range map[string]*sparkmsg.DriverDescription{
		"RPC":  bound(t, driverDesc(one), sparkmsg.FamilyE),
		"REST": driverDesc(one),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Masters = threeMasters })
			fw := w.joined(1)
			var s DriverSubmission
			w.core.SubmitDriver(DriverRequest{Desc: desc, Families: famE}, func(got DriverSubmission, err error) { s = got })
			w.settle()
			w.wantDriver(s.ID, fsm.DriverStateRunning)
			launches := fw.driverLaunches()
			wantLen(t, "launches", launches, 1)
			raw, err := launches[0].DriverDesc.MarshalPayload() // what is written
			if err != nil {
				t.Fatal(err)
			}
			sent, err := sparkmsg.ParseDriverDescription(raw)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"-Dspark.app.name=job", "-Dspark.master=spark://a:7077,b:7077,c:7078", "-Xmx1g"}
			if !slices.Equal(sent.Command.JavaOpts, want) {
				t.Errorf("the options are %q", sent.Command.JavaOpts)
			}
			if sent.Command.Arguments[2] != "com.example.Job" || len(sent.Command.Environment) != 1 || sent.Mem != 1024 {
				t.Errorf("something else has changed: %+v", sent)
			}
		})
	}
}

// A description that names all masters goes into the log as it came, byte for byte.
func TestS12_CompleteDescriptionIsLeftAlone(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Masters = threeMasters })
	desc := bound(t, driverDesc(func(d *sparkmsg.DriverDescription) {
		d.Command.JavaOpts = []string{"-Dspark.master=spark://c:7078,a:7077,b:7077"}
	}), sparkmsg.FamilyE)
	before, err := desc.MarshalPayload()
	if err != nil {
		t.Fatal(err)
	}
	id := w.submitDesc(desc)
	if d := w.driver(id); !slices.Equal(d.Payload, before) {
		t.Error("the stored description differs from the one that came")
	}
}

// What cannot be taken apart goes as it came, and somebody is told.
func TestS12_UnreadableCommandIsLeftAlone(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Masters = threeMasters })
	desc := bound(t, driverDesc(func(d *sparkmsg.DriverDescription) {
		d.Command.JavaOpts = []string{"-Dspark.master=spark://a:7077"}
	}), sparkmsg.FamilyE)
	desc.Command.Unread = []string{"environment"}
	id := w.submitDesc(desc)
	if d := w.driver(id); len(d.Payload) == 0 {
		t.Error("nothing is stored")
	}
	if !strings.Contains(w.log.String(), "spark.master of a driver could not be completed") {
		t.Error("nobody was told")
	}
}

// B-206, 4.x: the application is named after its driver, in the options and in what SparkSubmit is given.
func TestB206_ApplicationIsNamedAfterItsDriver(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.UseDriverIDAsAppName = true })
	fw := w.joined(1)
	args := func(rest ...string) func(*sparkmsg.DriverDescription) {
		return func(d *sparkmsg.DriverDescription) {
			d.Command.Arguments = append([]string{"{{WORKER_URL}}", "{{USER_JAR}}"}, rest...)
		}
	}
	first := w.submitted(args("com.example.Job"))
	second := w.submitted(args(sparkSubmit, "-c", "spark.app.name=old", "x.py"))
	third := w.submitted(args(sparkSubmit, "x.py"))
	for i, want := range []string{"com.example.Job", sparkSubmit + " -c spark.app.name=" + second + " x.py", sparkSubmit + " -c spark.app.name=" + third + " x.py"} {
		l := fw.driverLaunches()[i]
		if got := strings.Join(l.DriverDesc.Command.Arguments[2:], " "); got != want {
			t.Errorf("the arguments are %q, want %q", got, want)
		}
		if opts := l.DriverDesc.Command.JavaOpts; !slices.Equal(opts, []string{"-Dspark.app.name=" + l.DriverID}) {
			t.Errorf("the options are %q", opts)
		}
	}
	if fw.driverLaunches()[0].DriverID != first {
		t.Error("the order is another one")
	}
}
