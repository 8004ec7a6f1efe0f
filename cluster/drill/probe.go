package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"raftmaster/cluster/sparkpeer"
	"raftmaster/transport/frame"
	"raftmaster/transport/sparkmsg"
)

// ProbeName begins the names of the applications that drills register.
const ProbeName = "raftctl-drill-probe"

// SparkProbe registers applications through Spark's protocol. It implements Prober. The zero value plays Spark 4.3.
type SparkProbe struct {
	// Host is the address that the application gives as its own; "" is the one from which the first master is reached.
	Host string
	// Family is the release that it plays; the zero value is that of Spark 4.3.
	Family sparkmsg.Family
}

// registerEvery is how often the probe sends its registration to all masters. A real client does so every 20 s; masters
// that do not lead keep a registration, so that one is enough, but a master that was down has not got it. A repetition
// that is on its way when the answer comes registers once more.
const registerEvery = 3 * time.Second

// Register implements Prober.
func (p SparkProbe) Register(ctx context.Context, masters []string, name string) (Registration, error) {
	list, err := addresses(masters)
	if err != nil {
		return Registration{}, err
	}
	host := p.Host
	if host == "" {
		if host, err = ownHost(list[0]); err != nil {
			return Registration{}, err
		}
	}
	family := p.Family
	if family == sparkmsg.FamilyUnknown {
		family = sparkmsg.FamilyE
	}
	none := int32(0)
	app, err := sparkpeer.NewApp(sparkpeer.AppConfig{
		Common: sparkpeer.Common{Host: host, Masters: list, Family: family, Resolve: time.Second, DialTime: time.Second},
		Name:   name, User: "raftctl", InitialLimit: &none, MaxCores: &none,
		RegisterEvery: registerEvery, RegisterTries: int(time.Hour / registerEvery),
	})
	if err != nil {
		return Registration{}, err
	}
	defer app.Close()
	return p.await(ctx, app)
}

func (p SparkProbe) await(ctx context.Context, app *sparkpeer.App) (Registration, error) {
	const slice = 100 * time.Millisecond
	for ctx.Err() == nil {
		e, err := app.Log().Wait("RegisteredApplication", slice)
		if why := app.Removed(); err != nil && why != "" {
			return Registration{}, errors.New(why)
		}
		if err != nil {
			continue
		}
		m, ok := e.Msg.(*sparkmsg.RegisteredApplication)
		if !ok {
			return Registration{}, fmt.Errorf("the answer to a registration is %T", e.Msg)
		}
		r := Registration{AppID: m.AppID, At: e.At}
		if m.Master.Address != nil {
			r.Master = m.Master.Address.String()
		}
		for id := ""; id != app.ID(); time.Sleep(slice) { // nobody answers; the message is on its way
			id = app.ID()
			app.Unregister()
		}
		return r, nil
	}
	return Registration{}, errors.Join(errors.New("no master has accepted an application"), ctx.Err())
}

func addresses(masters []string) ([]frame.Address, error) {
	if len(masters) == 0 {
		return nil, errors.New("no master to register with")
	}
	out := make([]frame.Address, 0, len(masters))
	for _, m := range masters {
		host, text, err := net.SplitHostPort(m)
		if err != nil {
			return nil, err
		}
		port, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("master %q: %w", m, err)
		}
		out = append(out, frame.Address{Host: host, Port: int32(port)})
	}
	return out, nil
}

// ownHost is the address of this machine from which a master is reached; nothing is sent.
func ownHost(master frame.Address) (string, error) {
	c, err := net.Dial("udp", net.JoinHostPort(master.Host, strconv.Itoa(int(master.Port))))
	if err != nil {
		return "", fmt.Errorf("find the own address: %w", err)
	}
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	return host, errors.Join(err, c.Close())
}
