package sparkmsg

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"raftmaster/transport/javaser"
)

// A master stores the application it got in RegisterApplication and launches executors from the stored bytes, maybe on
// another machine and much later. What it sends must be what the real master sends.
func TestStoredApplicationLaunchesWithTheBytesOfTheRealMaster(t *testing.T) {
	stored := make(map[string]string) // payload to the recording it came from
	var launches []capture
	for _, c := range captures(t) {
		switch c.message() {
		case "RegisterApplication":
			d, err := Decode(c.stream)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := d.Msg.(*RegisterApplication).AppDescription.MarshalPayload()
			if err != nil {
				t.Fatal(err)
			}
			stored[string(payload)] = c.file
		case "LaunchExecutor":
			launches = append(launches, c)
		}
	}
	matched := 0
	for _, c := range launches {
		d, err := Decode(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		launch := d.Msg.(*LaunchExecutor)
		payload, err := launch.AppDesc.MarshalPayload()
		if err != nil {
			t.Fatal(err)
		}
		if stored[string(payload)] != "" {
			matched++
		}
		again, err := ParseApplicationDescription(payload)
		if err != nil {
			t.Fatalf("%s: %v", c.file, err)
		}
		if !reflect.DeepEqual(again, launch.AppDesc) {
			t.Errorf("%s: the description changed in storage", c.file)
		}
		launch.AppDesc = again
		got, err := Encode(launch, c.family)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, c.stream) {
			t.Errorf("%s/%s: bytes differ at %d", c.family, c.file, firstDifference(got, c.stream))
		}
	}
	if matched < 10 {
		t.Errorf("only %d launches of a recorded registration", matched)
	}
}

func TestStoredDriversAndExceptionsSurvive(t *testing.T) {
	for _, c := range captures(t) {
		d, err := Decode(c.stream)
		if err != nil {
			t.Fatal(err)
		}
		switch m := d.Msg.(type) {
		case *LaunchDriver:
			payload, err := m.DriverDesc.MarshalPayload()
			if err != nil {
				t.Fatal(err)
			}
			if m.DriverDesc, err = ParseDriverDescription(payload); err != nil {
				t.Fatal(err)
			}
		case *DriverStatusResponse:
			if m.Exception == nil {
				continue
			}
			payload, err := m.Exception.MarshalPayload()
			if err != nil {
				t.Fatal(err)
			}
			if m.Exception, err = ParseException(payload); err != nil {
				t.Fatal(err)
			}
		default:
			continue
		}
		if got, err := Encode(d.Msg, c.family); err != nil || !bytes.Equal(got, c.stream) {
			t.Errorf("%s/%s: differs after storage (%v)", c.family, c.file, err)
		}
	}
}

func TestRealApplicationsAreUnderstood(t *testing.T) {
	for _, fam := range []Family{FamilyB, FamilyE} {
		d, err := Decode(find(t, "driver-to-master-RegisterApplication-6", fam).stream)
		if err != nil {
			t.Fatal(err)
		}
		app := d.Msg.(*RegisterApplication).AppDescription
		if app.Name != "pi" || app.User != "root" || len(app.Command.Unread) > 0 || app.Command.MainClass == "" ||
			len(app.Command.Arguments) == 0 || len(app.Command.Environment) == 0 || len(app.Command.JavaOpts) == 0 {
			t.Errorf("%s: %+v", fam, app)
		}
		if app.DefaultProfile.MemoryPerExecutorMB() != 512 {
			t.Errorf("%s: memory %d", fam, app.DefaultProfile.MemoryPerExecutorMB())
		}
		if driver := d.Msg.(*RegisterApplication).Driver; driver.Name != "AppClient" || driver.Address == nil {
			t.Errorf("%s: driver %+v", fam, driver)
		}
	}
}

func TestDriversOfSpark4CarryTheirEnvironment(t *testing.T) {
	d, err := Decode(find(t, "client-to-master-RequestSubmitDriver-4", FamilyE).stream)
	if err != nil {
		t.Fatal(err)
	}
	desc := d.Msg.(*RequestSubmitDriver).DriverDescription
	want := []EnvVar{{"SPARK_SCALA_VERSION", "2.13"}, {"SPARK_BEELINE_OPTS", " -Djline.terminal=jline.UnsupportedTerminal"}, {"SPARK_DAEMON_MEMORY", "384m"}}
	if !reflect.DeepEqual(desc.Command.Environment, want) || len(desc.Command.Unread) > 0 {
		t.Errorf("environment %q, unread %q", desc.Command.Environment, desc.Command.Unread)
	}
}

func TestDescriptionsMadeHereNeedAFamilyForStorage(t *testing.T) {
	app, driver := testApplication(FamilyB), &DriverDescription{JarURL: "x", Command: testCommand()}
	if _, err := app.MarshalPayload(); !errors.Is(err, ErrNoGraph) {
		t.Errorf("unbound application: %v", err)
	}
	if err := app.Bind(FamilyUnknown); err == nil {
		t.Error("bound to no family")
	}
	for fam := FamilyA; fam < familyEnd; fam++ {
		if err := app.Bind(fam); err != nil {
			t.Fatal(err)
		}
		if err := driver.Bind(fam); err != nil {
			t.Fatal(err)
		}
		payload, err := driver.MarshalPayload()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseDriverDescription(payload)
		if err != nil {
			t.Fatal(err)
		}
		if back.JarURL != "x" || !reflect.DeepEqual(back.Command, driver.Command) {
			t.Errorf("%s: %+v", fam, back)
		}
		if fams, err := PayloadFamilies(payload); err != nil || !fams.Has(fam) {
			t.Errorf("%s: families %s, %v", fam, fams, err)
		}
	}
}

func TestPayloadOverTheLimitIsRefused(t *testing.T) {
	big := testApplication(FamilyE)
	big.Command.JavaOpts = []string{strings.Repeat("x", MaxPayload)}
	register := &RegisterApplication{AppDescription: big, Driver: EndpointRef{Name: "AppClient"}}
	if err := big.Bind(FamilyE); err != nil {
		t.Fatal(err)
	}
	var tooLarge *PayloadTooLargeError
	if _, err := big.MarshalPayload(); !errors.As(err, &tooLarge) || tooLarge.Size <= MaxPayload {
		t.Errorf("MarshalPayload: %v", err)
	}
	if _, err := Encode(register, FamilyE); !errors.As(err, &tooLarge) {
		t.Errorf("Encode: %v", err)
	}
	b := &builder{cat: loadCatalogues().of[FamilyE], message: "RegisterApplication"}
	stream, err := javaser.Encode(b.build(register), limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(stream); !errors.As(err, &tooLarge) {
		t.Errorf("Decode: %v", err)
	}
	if _, err := ParseApplicationDescription(make([]byte, MaxPayload+1)); !errors.As(err, &tooLarge) {
		t.Errorf("ParseApplicationDescription: %v", err)
	}
}

func TestPayloadOfAnotherClassIsRefused(t *testing.T) {
	d, err := Decode(find(t, "client-to-master-RequestSubmitDriver", FamilyB).stream)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := d.Msg.(*RequestSubmitDriver).DriverDescription.MarshalPayload()
	if err != nil {
		t.Fatal(err)
	}
	var unknown *UnknownClassError
	if _, err := ParseApplicationDescription(payload); !errors.As(err, &unknown) {
		t.Errorf("a driver was parsed as an application: %v", err)
	}
}

// S27: an object with the right fields and a foreign class is no description. It would be stored, and sent to workers.
func TestDescriptionOfAForeignClassIsRefused(t *testing.T) {
	for name, class := range map[string]string{
		"driver-to-master-RegisterApplication": "org.apache.spark.deploy.ApplicationDescription",
		"client-to-master-RequestSubmitDriver": "org.apache.spark.deploy.DriverDescription",
		"master-to-worker-LaunchExecutor":      "org.apache.spark.deploy.ApplicationDescription",
		"master-to-worker-LaunchDriver":        "org.apache.spark.deploy.DriverDescription",
	} {
		stream := find(t, name, FamilyB).stream
		foreign := bytes.Replace(stream, []byte(class), []byte(class[:len(class)-1]+"x"), 1)
		if bytes.Equal(stream, foreign) {
			t.Fatalf("no %s in %s", class, name)
		}
		var field *FieldError
		if _, err := Decode(foreign); !errors.As(err, &field) || field.Field != "class" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// In the JVM of a real master there is one None and one empty map, so those of the payload and those of the message
// around it are one instance.
func TestScalaObjectsAreSharedWithThePayload(t *testing.T) {
	for _, fam := range []Family{FamilyB, FamilyE} {
		app := &ApplicationDescription{Name: "a"} // its environment is the empty map
		if err := app.Bind(fam); err != nil {
			t.Fatal(err)
		}
		stream, err := Encode(&LaunchExecutor{AppDesc: app}, fam)
		if err != nil {
			t.Fatal(err)
		}
		root, _, err := decodeGraph(stream)
		if err != nil {
			t.Fatal(err)
		}
		launch := root.(*javaser.Object)
		command := field(field(launch, "appDesc").Ref.(*javaser.Object), "command").Ref.(*javaser.Object)
		if field(launch, "resources").Ref != field(command, "environment").Ref {
			t.Errorf("%s: two empty maps", fam)
		}
	}
}
