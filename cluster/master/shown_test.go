package master

import (
	"strings"
	"testing"

	"raftmaster/transport/sparkmsg"
)

func TestShownURLHidesCredentials(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                  "",
		"file:/jobs/job.jar":                "file:/jobs/job.jar",
		"/jobs/a@b.jar":                     "/jobs/a@b.jar",
		"hdfs://nn:8020/jobs/a@b.jar":       "hdfs://nn:8020/jobs/a@b.jar",
		"http://[2001:db8::1]:80/a.jar":     "http://[2001:db8::1]:80/a.jar",
		"file:///jobs/job.jar":              "file:///jobs/job.jar",
		"https://host":                      "https://host",
		"https://me:s3cret@host:8443/a.jar": "https://...@host:8443/a.jar",
		"https://me:s3@cret@host/a.jar":     "https://...@host/a.jar",
		"s3a://KEY:s3/cret@bucket/a.jar":    "s3a://...",
		"https://me:s3?cret@host/a.jar":     "https://...",
		"https://host/a.jar?sig=s3cret":     "https://host/a.jar?...",
		"https://host/a.jar#s3cret":         "https://host/a.jar#...",
		"a.jar?s3cret":                      "a.jar?...",
	} {
		if got := ShownURL(raw); got != want {
			t.Errorf("%q is shown as %q, want %q", raw, got, want)
		}
	}
}

// What a submitter has put into the address of its jar is for the worker that fetches it.
func TestLogHidesCredentialsOfAJar(t *testing.T) {
	w := newWorld(t)
	fw := w.joined(1)
	const jar = "https://me:s3cret@host/a.jar?sig=s3cret"
	w.submitted(func(d *sparkmsg.DriverDescription) { d.JarURL = jar })
	if log := w.log.String(); strings.Contains(log, "s3cret") || !strings.Contains(log, "jar=https://...@host/a.jar?...") {
		t.Errorf("the log says %s", log)
	}
	if l := fw.driverLaunches(); len(l) != 1 || l[0].DriverDesc.JarURL != jar {
		t.Errorf("the worker is told %+v", l)
	}
}
