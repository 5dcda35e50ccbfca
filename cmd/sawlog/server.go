package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"sawlog/broker"
	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/config"
	"sawlog/cmd/sawlog/output"
	"sawlog/cmd/sawlog/systemd"
	"sawlog/consumer"
	"sawlog/jobs"
	"sawlog/loader/sink/hdfs"
	"sawlog/offsets"
)

// server is one running node: broker, scheduler, and the HTTP side.
type server struct {
	broker     *broker.Broker
	jobs       *scheduling
	tickets    *tickets
	runner     *runner
	forward    http.Handler
	front      front
	supervisor systemd.Notifier
	http       *http.Server
	httpAddr   string
	secure     bool // it is HTTPS
	log        *slog.Logger
	link       *consumer.Link // of API and console to the broker
	settings   []config.Value
	broke      chan error    // the error that ends the server
	done       chan struct{} // closed by close
	wg         sync.WaitGroup

	scheduling context.CancelFunc // ends the scheduler
	scheduled  sync.WaitGroup
}

// startServer starts everything in the order in which it is needed; what fails
// takes down what stands already.
func startServer(ctx context.Context, c *config.Config, log *slog.Logger) (*server, error) {
	supervisor, err := systemd.Take()
	if err != nil {
		return nil, output.Errorf(output.Usage, "%w", err)
	}
	s := &server{log: log, supervisor: supervisor, broke: make(chan error, 3), done: make(chan struct{})}
	if err := s.start(ctx, c); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *server) start(ctx context.Context, c *config.Config) error {
	var cert *certificate
	if c.HTTPCert != "" {
		var err error
		if cert, err = openCertificate(c.HTTPCert, c.HTTPKey); err != nil {
			return err
		}
		s.secure = true
	}
	s.front.token = api.NewToken(c.HTTPToken)
	// The port of the console is taken before anything is written.
	web, err := net.Listen("tcp", c.HTTP)
	if err != nil {
		return portError("http", c.HTTP, err)
	}
	s.httpAddr = web.Addr().String()
	s.http = &http.Server{
		Handler: &s.front, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.wg.Go(func() {
		if err := s.serveWeb(web, cert); !errors.Is(err, http.ErrServerClosed) {
			s.broke <- fmt.Errorf("http: %w", err)
		}
	})
	s.supervise(ctx)
	s.broker, err = broker.Open(ctx, broker.Config{
		Dir: c.Data, Listen: c.Listen, Advertise: c.Advertise, NodeID: offsets.BrokerID(c.NodeID),
		Rack: c.Rack, Insecure: c.Insecure, Logger: s.log, Defaults: c.Topics,
		Peer: c.Peer, PeerOptional: !c.PeerGiven, PeerAdvertise: c.PeerAdvertise, Join: c.Join, ClusterKey: c.ClusterKey,
		HTTP: reachable(s.httpAddr, c.Advertise), Stage: s.front.at,
	})
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) && op.Addr != nil && op.Addr.String() == c.Peer {
			return portError("peer", c.Peer, err)
		}
		return portError("listen", c.Listen, err)
	}
	s.runner = &runner{brokers: s.broker.Seeds, rack: c.Rack, log: s.log, timeout: 30 * time.Second}
	s.link, s.settings = newLink(s.broker.Addr()), c.Values
	if s.forward, err = s.forwarding(cert); err != nil {
		return err
	}
	if err := s.schedule(ctx); err != nil {
		return err
	}
	s.front.open(s.jobs, s.broker)
	s.wg.Go(func() {
		select {
		case <-s.done:
		case err := <-s.broker.Failed():
			s.broke <- portError("peer", c.Peer, err)
		}
	})
	return nil
}

// forwarding passes requests on to the node that runs the scheduler, in the way
// in which this one serves them.
func (s *server) forwarding(cert *certificate) (http.Handler, error) {
	f := newForward(func() broker.JournalLeader { return s.broker.JournalLeader(jobsTopic) })
	if cert == nil {
		return f, nil
	}
	trusted, err := cert.trusted()
	if err != nil {
		return nil, err
	}
	f.secure(trusted)
	return f, nil
}

// reachable is a bound address as other nodes can use it: where it names no
// host, the one clients are told is taken; "" when there is none either.
func reachable(bound, advertised string) string {
	host, port, err := net.SplitHostPort(bound)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return bound
	}
	if host, _, err = net.SplitHostPort(advertised); err != nil {
		return ""
	}
	return net.JoinHostPort(host, port)
}

// schedule starts the scheduler, if this node is to run it now, and the watch
// that starts and stops it from then on. A node alone must be able to.
func (s *server) schedule(ctx context.Context) error {
	s.tickets = &tickets{specs: s.specs, login: hdfs.Login, log: s.log}
	s.jobs = &scheduling{broker: s.broker, runner: s.runner, log: s.log, face: s.face}
	s.jobs.show(nil)
	if s.broker.Alone() {
		if err := s.jobs.open(ctx); err != nil && !errors.Is(err, broker.ErrElsewhere) {
			return err
		}
	}
	ctx, s.scheduling = context.WithCancel(context.WithoutCancel(ctx))
	s.scheduled.Go(func() { s.jobs.run(ctx) })
	s.scheduled.Go(func() { s.tickets.watch(ctx) })
	return nil
}

// specs are the jobs of the scheduler, none where it doesn't run.
func (s *server) specs() (list []*jobs.Spec) {
	scheduler := s.jobs.scheduler()
	if scheduler == nil {
		return nil
	}
	for _, job := range scheduler.List() {
		if spec, err := scheduler.Spec(job.Name); err == nil {
			list = append(list, spec)
		}
	}
	return list
}

// portError tells what to do when an address is taken, by another program or for
// another cluster.
func portError(name, addr string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return &output.Error{
			Code: output.Conflict, Msg: "--" + name + " " + addr, Err: err,
			Hint: "another program listens there: stop it, or take another --" + name + " (port 0 is any free one)",
		}
	}
	if c, ok := errors.AsType[*broker.ConfigError](err); ok {
		return output.Errorf(output.Usage, "%w", c.Err)
	}
	if _, ok := errors.AsType[*broker.FormerMemberError](err); ok {
		return &output.Error{Code: output.Conflict, Err: err}
	}
	return err
}

// failed delivers the error that ends the server, if one does.
func (s *server) failed() <-chan error { return s.broke }

// drainTime bounds how long a node that stops waits for others to take over.
const drainTime = 10 * time.Second

// closeTime bounds how long requests may go on once everything else has stopped,
// which may take the scheduler longer than this.
const closeTime = 5 * time.Second

// close hands over what the node leads while /readyz says so, and then stops
// everything, the faces first.
func (s *server) close() error {
	supervised{tell: s.supervisor.Tell, log: s.log}.say(systemd.Stopping, systemd.Status("it stops"))
	if s.broker != nil {
		draining, cancel := context.WithTimeout(context.Background(), drainTime)
		if err := s.broker.Drain(draining); err != nil {
			s.log.Warn("leaving the cluster without handing over", "error", err)
		}
		cancel()
	}
	var errs []error
	close(s.done)
	if s.http != nil {
		errs = append(errs, s.http.Close())
	}
	s.wg.Wait()
	if s.link != nil {
		errs = append(errs, s.link.Close())
	}
	if s.scheduling != nil {
		s.scheduling()
	}
	s.scheduled.Wait()
	if s.broker != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTime)
		defer cancel()
		errs = append(errs, s.broker.Close(ctx))
	}
	return errors.Join(errs...)
}

// runNow runs a job and waits for the end of its runs.
func (s *server) runNow(ctx context.Context, job string) ([]*jobs.Run, error) {
	scheduler := s.jobs.scheduler()
	if scheduler == nil {
		return nil, errors.New("the scheduler does not run here")
	}
	feed, cancel := scheduler.Subscribe()
	defer func() { cancel() }()
	runs, err := scheduler.Trigger(ctx, jobs.Trigger{Job: job, By: whoami()})
	if err != nil {
		return nil, err
	}
	for {
		open := false
		for i, r := range runs {
			if runs[i], err = scheduler.Run(r.Run); err != nil {
				return nil, err
			}
			open = open || runs[i].Open()
		}
		if !open {
			return runs, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case err := <-s.broke:
			return nil, err
		case _, ok := <-feed:
			switch {
			case s.jobs.scheduler() != scheduler:
				return nil, errors.New("the scheduler has stopped")
			case !ok: // it fell behind: what happened is in the runs themselves
				cancel()
				feed, cancel = scheduler.Subscribe()
			}
		}
	}
}
