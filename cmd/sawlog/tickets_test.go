package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/jobs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
)

func ticketSpec(root, principal string) *jobs.Spec {
	s := &jobs.Spec{}
	s.Output.Root, s.Output.Access.Principal = root, principal
	return s
}

// Logins are tried once a minute, each once however many jobs share it; what no
// job needs is neither tried nor told.
func TestTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		specs := []*jobs.Spec{
			ticketSpec("hdfs://nn/a", "load@EX"), ticketSpec("hdfs://nn/b", "load@EX"), ticketSpec("hdfs://other/a", "load@EX"),
			ticketSpec("file:///a", ""), ticketSpec("hdfs://open/a", ""),
		}
		tried := map[string]int{}
		var broken error
		var said strings.Builder
		w := &tickets{
			specs: func() []*jobs.Spec { return specs },
			login: func(_ context.Context, root string, access sink.Access) (*hdfs.Ticket, error) {
				host, _, _ := strings.Cut(strings.TrimPrefix(root, "hdfs://"), "/")
				if tried[host]++; host == "open" {
					return nil, nil
				}
				if broken != nil {
					return &hdfs.Ticket{Service: host, Principal: access.Principal}, broken
				}
				return &hdfs.Ticket{Service: host, Principal: access.Principal, End: time.Now().Add(time.Hour)}, nil
			},
			log: slog.New(slog.NewTextHandler(&said, nil)),
		}
		go w.watch(t.Context())
		pass := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		pass(time.Second)
		got := w.list()
		if len(got) != 2 || got[0].Service != "nn" || got[1].Service != "other" || got[0].Err != nil || got[0].End.IsZero() {
			t.Fatalf("%+v", got)
		}
		pass(58 * time.Second)
		if tried["nn"] != 1 || tried["other"] != 1 || tried["open"] != 1 {
			t.Errorf("tried %v within a minute", tried)
		}
		broken = errors.New("the key is old")
		pass(2 * time.Minute)
		if got = w.list(); got[0].Err == nil || tried["nn"] != 3 {
			t.Errorf("%+v after %v tries", got, tried)
		}
		if n := strings.Count(said.String(), "the key is old"); n != 2 {
			t.Errorf("two logins that fail are told %d times: %s", n, said.String())
		}
		specs = specs[2:]
		pass(time.Minute)
		if got = w.list(); len(got) != 1 || got[0].Service != "other" {
			t.Errorf("%+v", got)
		}
	})
}
