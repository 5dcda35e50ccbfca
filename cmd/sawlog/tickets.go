package main

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"sawlog/cmd/sawlog/api"
	"sawlog/jobs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/hdfs"
)

// tickets are the Kerberos logins that a server's jobs need. They are tried now
// and then, as a run would: a keytab that is outdated, or a ticket nobody renews,
// is to be known before the run that needs it.
type tickets struct {
	specs func() []*jobs.Spec
	login func(ctx context.Context, root string, access sink.Access) (*hdfs.Ticket, error)
	log   *slog.Logger

	mu   sync.Mutex
	held map[identity]heldTicket
}

// identity is who logs in where.
type identity struct{ root, keytab, principal string }

type heldTicket struct {
	api.Ticket
	needed bool
	at     time.Time // when it was tried
}

const (
	ticketLook = 5 * time.Second // between two looks at what jobs there are
	ticketAge  = time.Minute     // between two logins
)

// watch looks until done.
func (t *tickets) watch(ctx context.Context) {
	tick := time.NewTicker(ticketLook)
	defer tick.Stop()
	for {
		t.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look tries the logins whose time has come, and forgets those no job needs.
func (t *tickets) look(ctx context.Context) {
	held := map[identity]heldTicket{}
	for _, spec := range t.specs() {
		root, access := spec.Output.Root, spec.Output.Access
		host, _, onHDFS := strings.Cut(strings.TrimPrefix(root, "hdfs://"), "/")
		id := identity{host, access.Keytab, access.Principal}
		if _, seen := held[id]; seen || !onHDFS || !strings.HasPrefix(root, "hdfs://") {
			continue
		}
		t.mu.Lock()
		have, known := t.held[id]
		t.mu.Unlock()
		if known && time.Since(have.at) < ticketAge {
			held[id] = have
			continue
		}
		got, err := t.login(ctx, root, access)
		if err != nil && (!known || have.Err == nil) {
			t.log.Warn("the next run will not get into its root", "root", root, "err", err)
		}
		fresh := heldTicket{api.Ticket{Service: host, Principal: access.Principal, Err: err}, got != nil || err != nil, time.Now()}
		if got != nil {
			fresh.Service, fresh.Principal, fresh.End = got.Service, got.Principal, got.End
		}
		held[id] = fresh
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = held
}

// list is what was found, in order of the service and the principal; of several
// logins of one principal, one that fails.
func (t *tickets) list() []api.Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []api.Ticket
	for _, h := range t.held {
		if h.needed {
			all = append(all, h.Ticket)
		}
	}
	slices.SortFunc(all, func(a, b api.Ticket) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Principal, b.Principal), a.End.Compare(b.End))
	})
	return slices.CompactFunc(all, func(a, b api.Ticket) bool { return a.Service == b.Service && a.Principal == b.Principal })
}
