package main

import (
	"context"
	"net"
	"net/http"
	"slices"

	"sawlog/cmd/sawlog/api"
	"sawlog/cmd/sawlog/console"
	"sawlog/jobs"
	"sawlog/loader"
)

// face joins the API, the metrics and the console over the server's parts.
// Without a scheduler what needs one is passed on to the node that has it.
func (s *server) face(scheduler *jobs.Scheduler) http.Handler {
	run := s.runner
	pages := console.New(console.Config{
		Jobs: scheduler, Elsewhere: s.forward, Logger: s.log, Version: version, Login: s.front.token != nil, Sources: s.sources(),
		Plan: run.Plan, Detail: run.detail, Rerun: run.rerun, Verify: run.verify,
	})
	host, _, err := net.SplitHostPort(s.httpAddr)
	ip := net.ParseIP(host)
	return api.New(api.Config{
		Jobs:      scheduler,
		Elsewhere: s.forward,
		Cluster:   api.OverKafka(s.link),
		Broker:    s.broker.Metrics,
		Place:     s.broker.ClusterMetrics,
		Console:   pages,
		Logger:    s.log,
		Version:   version,
		Loopback:  err == nil && ip != nil && ip.IsLoopback(),
		Names:     s.told(),
		Token:     s.front.token,
		Checks:    map[string]func() error{"broker": s.broker.Ready},
		Tickets:   s.tickets.list,
		Plan:      run.Plan,
		Detail:    run.whole,
		Rerun: func(ctx context.Context, spec *jobs.Spec, set jobs.Set, what string) (any, error) {
			return run.rerun(ctx, spec, set, what)
		},
		Verify: func(ctx context.Context, spec *jobs.Spec, set jobs.Set, what string) (any, error) {
			return run.verify(ctx, spec, set, what)
		},
		Fold: func(ctx context.Context, spec *jobs.Spec, set jobs.Set) (*loader.Fold, error) {
			ledger, err := run.ledger(ctx, spec, set)
			if err != nil || ledger == nil {
				return nil, err
			}
			return ledger.Fold(), nil
		},
	})
}

// told lists the addresses that the server was told of itself; other nodes reach
// it by one of them.
func (s *server) told() (addrs []string) {
	for _, v := range s.settings {
		if slices.Contains([]string{"http", "advertise", "peer-advertise"}, v.Name) {
			addrs = append(addrs, v.Value)
		}
	}
	return addrs
}
