package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"raftmaster/cluster/admin"
	"raftmaster/cluster/backup"
	"raftmaster/cluster/config"
	"raftmaster/cluster/master"
	"raftmaster/cluster/node"
	"raftmaster/cluster/security"
	"raftmaster/fsm"
	"raftmaster/transport/portmux"
	"raftmaster/transport/sparkmsg"
	"raftmaster/transport/sparkrpc"
	"raftmaster/transport/webui"
)

const (
	// handOverTimeout bounds how long a leader that is told to stop waits for its successor.
	handOverTimeout = 5 * time.Second
	// webShutdownTimeout bounds how long open HTTP requests may take when the process stops.
	webShutdownTimeout = 2 * time.Second
	// ringSize is how many events a master remembers.
	ringSize = 4096
	// settingsExecutors and settingsLeaders bound what the state remembers per application and of elections.
	settingsExecutors = 100
	settingsLeaders   = 64
)

// Server is one running master.
type Server struct {
	cfg     config.Config
	log     hclog.Logger
	version string
	started time.Time
	guard   *security.Guard

	web      *webui.Server
	webURL   string
	rest     *webui.Server // nil when the gateway is off
	restURL  string
	mux      *portmux.Mux
	node     *node.Node
	rpc      *sparkrpc.Endpoint
	svc      *master.Service
	ring     *admin.Ring
	drills   *drills // nil unless they are enabled
	levels   *logLevels
	logRing  *logRing
	registry *prometheus.Registry
	metrics  atomic.Pointer[admin.Metrics] // set before the port is served
	backend  *admin.Backend

	term   atomic.Uint64          // of the last election that this node has won or lost
	alive  atomic.Bool            // elected, and the leader service knows
	reason atomic.Pointer[reason] // of the election that is under way, where known
	leads  leadership
	saves  *backup.Schedule // nil: none
	fatal  chan error
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Run is a whole master: it returns nil after a stop when ctx ends, and an error when the master could not start
// or must not go on.
func Run(ctx context.Context, cfg config.Config, log hclog.Logger, version string) error {
	return RunWatched(ctx, cfg, log, version, nil)
}

// Start brings a master up. The caller must Stop it.
func Start(cfg config.Config, log hclog.Logger, version string) (_ *Server, err error) {
	s := &Server{cfg: cfg, log: log, version: version, started: time.Now(), fatal: make(chan error, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.logRing = newLogRing(log)
	defer func() {
		if err != nil {
			if s.node != nil {
				s.node.Kill()
			}
			s.closeREST()
			s.closePort()
			s.closeWeb()
		}
	}()
	for _, w := range cfg.Warnings {
		log.Warn(w)
	}
	if err := s.newGuard(); err != nil {
		return nil, err
	}
	webListener, err := webui.Listen(s.ctx, "MasterUI", cfg.WebUIHost, cfg.WebUIPort, cfg.PortMaxRetries)
	if err != nil {
		return nil, err
	}
	s.webURL = s.urlOf(webListener)
	listener, err := listenCluster(cfg)
	if err != nil {
		return nil, errors.Join(err, webListener.Close())
	}
	restListener, err := s.listenREST()
	if err != nil {
		return nil, errors.Join(err, webListener.Close(), listener.Close())
	}
	s.ring, s.registry = admin.NewRing(ringSize, nil), prometheus.NewRegistry()
	s.levels = newLogLevels(log, cfg.Advertise().String(), s.ring.Add)
	s.drills = s.newDrills()
	webListener, listener = s.drills.listener(webListener), s.drills.listener(listener)
	if restListener != nil {
		restListener = s.drills.listener(restListener)
	}
	if err := s.startCore(listener); err != nil {
		return nil, errors.Join(err, webListener.Close(), closeListener(restListener))
	}
	s.guard.Announce()
	s.wg.Go(func() { s.guard.Run(s.ctx) })
	s.startWeb(webListener)
	if restListener != nil {
		if err := s.startREST(restListener); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func closeListener(ln net.Listener) error {
	if ln == nil {
		return nil
	}
	return ln.Close()
}

// listenCluster binds the cluster port, which never walks to another number: it is part of the list.
func listenCluster(cfg config.Config) (net.Listener, error) {
	ln, err := net.Listen("tcp", cfg.BindAddress())
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the cluster port %s: %w (%s)", cfg.BindAddress(), err, listenHint(err))
	}
	return ln, nil
}

// listenHint says what helps against a failed listen.
func listenHint(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "this machine cannot resolve --host: correct it, or make the name known here; --advertise-host is the name for the others"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "--host is no address of this machine: give one of its own, such as 0.0.0.0, and the name for the others as --advertise-host"
	case errors.Is(err, syscall.EADDRINUSE):
		return "is another master running there? --port and --host choose another address, --cluster must list it"
	case errors.Is(err, os.ErrPermission):
		return "this user may not listen there: ports below 1024 are privileged; --port chooses another one, --cluster must list it"
	}
	return "--host and --port choose another address, --cluster must list it"
}

func (s *Server) urlOf(ln net.Listener) string {
	port := ln.Addr().(*net.TCPAddr).Port
	return scheme(s.cfg.WebTLS.On()) + config.Address{Host: s.cfg.PublicHost, Port: port}.String()
}

// URL is where this master's web UI is.
func (s *Server) URL() string { return s.webURL }

func (s *Server) self() sparkmsg.Address {
	a := s.cfg.Advertise()
	return sparkmsg.Address{Host: a.Host, Port: int32(a.Port)}
}

// fail ends the master from any goroutine; the first reason counts.
func (s *Server) fail(err error) {
	select {
	case s.fatal <- err:
	default:
	}
}

// observer feeds metrics and the timeline. The metrics are registered once the node is up; what happens before is only
// in the timeline.
type observer struct{ s *Server }

func (o observer) Committed(command string, took time.Duration) {
	if m := o.s.metrics.Load(); m != nil {
		m.Committed(command, took)
	}
}

func (o observer) Planned(took time.Duration) {
	if m := o.s.metrics.Load(); m != nil {
		m.Planned(took)
	}
}

func (o observer) Event(kind, subject, detail string) {
	e := webui.Event{Kind: kind, Node: o.s.cfg.Advertise().String(), Subject: subject, Message: detail}
	e.Term = o.s.term.Load()
	if kind == "leader" { // "took over in term 7: why"
		e.Message, e.Reason, _ = strings.Cut(detail, ": ")
	}
	o.s.ring.Add(e)
}

// masterConfig translates the configuration for the leader service.
func (s *Server) masterConfig(nodeID string) master.Config {
	d := s.cfg.Deploy
	return master.Config{
		NodeID: nodeID, Self: s.self(), WebUIURL: s.webURL,
		WorkerTimeout: d.WorkerTimeout, RecoveryTimeout: d.RecoveryTimeout, AppTimeout: d.AppTimeout,
		DeadWorkerPersistence: d.DeadWorkerPersistence, DefaultCores: d.DefaultCores,
		SpreadOutApps: d.SpreadOutApps, SpreadOutDrivers: d.SpreadOutDrivers, MaxDrivers: d.MaxDrivers, Policy: d.WorkerSelectionPolicy,
		AppIDPattern: d.AppIDPattern, DriverIDPattern: d.DriverIDPattern, AppNumberModulo: d.AppNumberModulo,
		UseAppNameAsAppID: d.UseAppNameAsAppID, UseDriverIDAsAppName: d.UseDriverIDAsAppName,
		RelaunchDelay: d.RelaunchDelay, DecommissionEnabled: d.DecommissionEnabled, Masters: s.masters(),
		Lease: s.cfg.FailoverTimeout,
		Settings: fsm.Settings{
			MaxExecutorRetries: d.MaxExecutorRetries, RetainedApplications: d.RetainedApplications,
			RetainedDrivers: d.RetainedDrivers, RetainedExecutors: settingsExecutors, LeaderHistory: settingsLeaders,
		},
	}
}

// masters are all masters of the list, as drivers are told of them.
func (s *Server) masters() []sparkmsg.Address {
	out := make([]sparkmsg.Address, 0, len(s.cfg.Cluster))
	for _, a := range s.cfg.Cluster {
		out = append(out, sparkmsg.Address{Host: a.Host, Port: int32(a.Port)})
	}
	return out
}

// leader is where the leader is, as far as this master knows.
func (s *Server) leader() (sparkmsg.Address, bool) {
	_, address := s.node.Leader()
	list, err := config.ParseCluster(address)
	if address == "" || err != nil {
		return sparkmsg.Address{}, false
	}
	return sparkmsg.Address{Host: list[0].Host, Port: int32(list[0].Port)}, true
}

func (s *Server) startWeb(ln net.Listener) {
	ui := s.cfg.UI
	s.web = webui.StartTLS(ln, s.guard.Web(), webui.NewHandler(webui.Options{
		Drills: s.webDrills(), Snapshots: snapshots{s}, LogLevels: s.levels, Debug: s.debugParts(),
		State: s.backend, Details: s.backend, Events: s.ring, Leadership: s.backend,
		Operations: s.backend.Operations(s.svc, s.cfg.Deploy.DecommissionEnabled), Metrics: s.registry, Tokens: s.guard.Tokens(), Operated: s.operated, Title: ui.Title,
		AllowFramingFrom: ui.AllowFramingFrom, XXSSProtection: ui.XXSSProtection,
		ContentSecurityPolicy: ui.ContentSecurityPolicy, Log: s.log.Named("web"),
		KillEnabled: ui.KillEnabled, DecommissionEnabled: s.cfg.Deploy.DecommissionEnabled, DecommissionAllow: ui.DecommissionAllow,
		ReverseProxy: ui.ReverseProxy, ReverseProxyURL: ui.ReverseProxyURL, HistoryServerURL: ui.HistoryServerURL,
		Environment: s.environment(), LogFiles: webui.ProcessLogFiles,
	}), s.log.Named("web"))
	s.log.Info(fmt.Sprintf("Successfully started service 'MasterUI' on port %d.", s.web.Port()))
	s.log.Info(fmt.Sprintf("Bound MasterWebUI to %s, and started at %s", s.cfg.WebUIHost, s.webURL))
}

func (s *Server) registerMetrics() error {
	reg := s.registry
	for _, c := range []prometheus.Collector{collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	m, err := admin.NewMetrics(reg, s.backend)
	if err != nil {
		return err
	}
	s.metrics.Store(m)
	if err := s.registerSaves(reg); err != nil {
		return err
	}
	return reg.Register(s.guard)
}
