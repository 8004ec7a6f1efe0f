package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"raftmaster/transport/webui"
)

func (a *app) drivers(ctx context.Context) error {
	var v webui.DriversAnswer
	endpoint, err := fromBest(ctx, a, "/v1/drivers", &v)
	if err != nil {
		return err
	}
	now := time.Now().UnixMilli()
	return a.listed(v, func(w io.Writer) {
		row(w, "DRIVER", "STATE", "CORES", "MEMORY", "WORKER", "MAIN CLASS", "SUBMITTED", "DURATION", "NOTE")
		for _, d := range v.Drivers {
			row(w, d.ID, d.State, d.Cores, memory(d.MemoryMB), d.WorkerID, d.MainClass, stamp(d.SubmittedMillis), age(driverEnd(d, now)-d.SubmittedMillis), driverNote(d, now))
		}
		answeredBy(w, v.Source, endpoint)
	})
}

func driverEnd(d webui.Driver, now int64) int64 {
	if d.EndedMillis != 0 {
		return d.EndedMillis
	}
	return now
}

// driverNote says what is special about a driver.
func driverNote(d webui.Driver, now int64) string {
	var notes []string
	if d.LaunchUnconfirmed {
		notes = append(notes, "launch not confirmed yet")
	}
	if d.KillRequested && d.Active {
		notes = append(notes, "being killed")
	}
	if d.Supervise && d.Active {
		notes = append(notes, "supervised")
	}
	if d.Attempt > 0 {
		notes = append(notes, fmt.Sprintf("relaunch %d of %s", d.Attempt, d.Predecessor))
	}
	if wait := d.NotBeforeMillis - now; d.WhyWaiting != "" {
		notes = append(notes, d.WhyWaiting)
	} else if d.NotBeforeMillis != 0 && wait > 0 {
		notes = append(notes, "placed in "+age(wait)+" at the earliest")
	}
	if d.Successor != "" {
		notes = append(notes, "goes on as "+d.Successor)
	}
	if d.Exception != "" {
		notes = append(notes, d.Exception)
	}
	return strings.Join(notes, "; ")
}

// driverLog is the page of the driver's worker that shows its standard error. A worker reports FAILED without a reason, which
// is to be found there only.
func driverLog(d webui.Driver) string {
	if d.WorkerWebURL == "" {
		return ""
	}
	return strings.TrimRight(d.WorkerWebURL, "/") + "/logPage/?driverId=" + url.QueryEscape(d.ID) + "&logType=stderr"
}

// driverStatus says how one driver is. That it has failed is no failure of the question.
func (a *app) driverStatus(ctx context.Context, id string) error {
	var v webui.DriverAnswer
	endpoint, err := fromBest(ctx, a, "/v1/driver?id="+url.QueryEscape(id), &v)
	if err != nil {
		return err
	}
	d, now := v.Driver, time.Now().UnixMilli()
	return a.listed(v, func(w io.Writer) {
		row(w, "Driver", d.ID)
		row(w, "State", d.State)
		row(w, "Worker", strings.TrimSpace(d.WorkerID+" "+d.Worker))
		row(w, "Main class", d.MainClass)
		row(w, "Jar", d.JarURL)
		row(w, "Wants", needs(&webui.WhyNeed{Cores: d.Cores, MemoryMB: d.MemoryMB, Resources: d.Requests}))
		row(w, "Supervised", yesNo(d.Supervise))
		row(w, "Submitted", stamp(d.SubmittedMillis))
		row(w, "Launched", stamp(d.LaunchedMillis))
		row(w, "Ended", stamp(d.EndedMillis))
		row(w, "Spark", release(d.SparkVersion, d.Family))
		row(w, "Log", driverLog(d))
		row(w, "Note", driverNote(d, now))
		answeredBy(w, v.Source, endpoint)
	})
}

func requests(list []webui.ResourceRequest) string {
	out := ""
	for _, r := range list {
		out += fmt.Sprintf(", %d %s", r.Amount, r.Name)
	}
	return out
}

// whyWaiting says what holds an application or a driver back.
func (a *app) whyWaiting(ctx context.Context, id string) error {
	var v webui.WhyAnswer
	endpoint, err := fromBest(ctx, a, "/v1/why-waiting?id="+url.QueryEscape(id), &v)
	if err != nil {
		return err
	}
	return a.listed(v, func(w io.Writer) {
		whyHead(w, &v.WhyWaiting)
		if d := v.Driver; d != nil {
			row(w, "Wants", needs(d))
			row(w, "Workers", states(d.Workers))
		} else {
			fmt.Fprintln(w)
			row(w, "PROFILE", "EXECUTORS", "TARGET", "EACH NEEDS", "LIMIT", "WORKERS BY LIMIT")
			for i := range v.Profiles {
				p := &v.Profiles[i]
				row(w, p.ID, p.Executors, limited(p.Target), needs(&p.WhyNeed), p.Limit, states(p.Workers))
			}
		}
		answeredBy(w, v.Source, endpoint)
	})
}

func whyHead(w io.Writer, v *webui.WhyWaiting) {
	noun, others := "Application", "applications that want executors"
	if v.Kind == webui.KindDriver {
		noun, others = "Driver", "drivers that wait"
	}
	row(w, noun, strings.TrimSuffix(v.ID+" ("+v.Name+")", " ()"))
	if v.AskedID != v.ID {
		row(w, "Goes on for", v.AskedID)
	}
	row(w, "State", v.SubjectState)
	if v.Kind == webui.KindApp {
		row(w, "Cores", fmt.Sprintf("%d of %s", v.CoresGranted, limited(v.MaxCores)))
	}
	if v.QueuePosition > 0 {
		row(w, "Queue", fmt.Sprintf("number %d of the %s", v.QueuePosition, others))
	}
	row(w, "Limit", v.Limit)
	row(w, "Why", v.Text)
	row(w, "Next", v.Next)
}

func needs(n *webui.WhyNeed) string {
	return plural(n.Cores, "core") + ", " + memory(n.MemoryMB) + requests(n.Resources)
}

func limited(n int64) string {
	if n == webui.Unlimited {
		return "no limit"
	}
	return fmt.Sprint(n)
}
