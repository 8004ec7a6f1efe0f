package master

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"raftmaster/transport/sparkmsg"
)

const (
	// masterOption is how a driver's command line names the masters of its application (deploy/Client.scala passes all
	// spark.* properties that way, and so does the REST gateway).
	masterOption  = "-Dspark.master="
	appNameOption = "-Dspark.app.name="
	sparkScheme   = "spark://"
	sparkSubmit   = "org.apache.spark.deploy.SparkSubmit"
)

// driverPayload is a description that is ready for the log.
type driverPayload struct {
	bytes    []byte
	families sparkmsg.FamilySet
	// rewritten: spark.master named some of the masters only; kept says why it could not be changed.
	rewritten bool
	kept      error
}

// prepare turns a submission into what is stored. A driver outlives the leader that launched it, so it must know all
// masters, whichever of them its submitter knew (S12).
func (c *Core) prepare(req *DriverRequest) (driverPayload, error) {
	desc, families := req.Desc, req.Families
	var out driverPayload
	if desc.Graph != nil {
		// What the description itself shows counts more than what the caller takes it for.
		raw, err := desc.MarshalPayload()
		if err != nil {
			return out, err
		}
		shown, err := sparkmsg.PayloadFamilies(raw)
		if err != nil {
			return out, err
		}
		if both := shown.Intersect(families); !both.IsEmpty() {
			families = both
		} else {
			families = shown
		}
		out.bytes = raw
	}
	if families.IsEmpty() {
		return out, fmt.Errorf("no Spark release is known that can run this driver")
	}
	out.families = families
	opts, changed := nameAllMasters(desc.Command.JavaOpts, c.cfg.Masters)
	if !changed && out.bytes != nil {
		return out, nil
	}
	received := desc.Command.JavaOpts
	desc.Command.JavaOpts = opts
	err := desc.Bind(families.Lowest())
	if err != nil && out.bytes != nil { // it holds what only its own release can read: it goes as it came
		desc.Command.JavaOpts, out.kept = received, err
		return out, nil
	}
	if err == nil {
		out.bytes, err = desc.MarshalPayload()
	}
	out.rewritten = changed
	return out, err
}

// nameAllMasters completes spark.master in java options that name some of our masters only. The value of somebody who
// knows us by other names is left alone: they may be the only ones that work where the driver runs.
func nameAllMasters(opts []string, masters []sparkmsg.Address) ([]string, bool) {
	var out []string
	for i, opt := range opts {
		url, ok := strings.CutPrefix(opt, masterOption)
		if !ok {
			continue
		}
		full, ok := completeMasters(url, masters)
		if !ok {
			continue
		}
		if out == nil {
			out = slices.Clone(opts)
		}
		out[i] = masterOption + full
	}
	if out == nil {
		return opts, false
	}
	return out, true
}

// completeMasters adds the masters that a master URL lacks; false when it names none of ours, or all.
func completeMasters(url string, masters []sparkmsg.Address) (string, bool) {
	rest, ok := strings.CutPrefix(url, sparkScheme)
	if !ok {
		return "", false
	}
	named := strings.Split(rest, ",")
	var ours, missing []string
	for _, m := range masters {
		text := m.String()
		if slices.ContainsFunc(named, func(n string) bool { return sameMaster(n, m) }) {
			ours = append(ours, text)
		} else {
			missing = append(missing, text)
		}
	}
	switch {
	case len(ours) == 0 || len(missing) == 0:
		return "", false
	case len(ours) == len(named): // in the order of the cluster's own list
		all := make([]string, len(masters))
		for i, m := range masters {
			all[i] = m.String()
		}
		return sparkScheme + strings.Join(all, ","), true
	}
	return sparkScheme + strings.Join(append(named, missing...), ","), true
}

func sameMaster(named string, m sparkmsg.Address) bool {
	at := strings.LastIndexByte(named, ':')
	if at < 0 {
		return false
	}
	port, err := strconv.Atoi(named[at+1:])
	return err == nil && port == int(m.Port) && strings.EqualFold(strings.TrimSpace(named[:at]), m.Host)
}

// nameAfterDriver gives a driver's application the driver's id for a name (B-206). It changes desc.
func nameAfterDriver(desc *sparkmsg.DriverDescription, id string, fam sparkmsg.Family) error {
	cmd := &desc.Command
	received := *cmd
	config := strings.TrimPrefix(appNameOption, "-D") + id
	cmd.JavaOpts = slices.DeleteFunc(slices.Clone(cmd.JavaOpts), func(o string) bool { return strings.HasPrefix(o, appNameOption) })
	cmd.JavaOpts = append(cmd.JavaOpts, "-D"+config)
	if args := cmd.Arguments; len(args) > 2 && args[2] == sparkSubmit {
		args = slices.Clone(args)
		if len(args) > 4 && strings.HasPrefix(args[4], strings.TrimPrefix(appNameOption, "-D")) {
			args[4] = config
		} else {
			args = slices.Insert(args, 3, "-c", config)
		}
		cmd.Arguments = args
	}
	if err := desc.Bind(fam); err != nil {
		*cmd = received
		return err
	}
	return nil
}
