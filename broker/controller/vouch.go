package controller

import (
	"errors"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// vouching is a transport that lets a follower commit no further than a message
// vouches for: up to the last entry that it names (guard G9; Raft §5.3, "index of
// last new entry"). hashicorp/raft commits up to the end of the follower's log,
// also where that end is another leader's, or was cut and not replaced yet.
type vouching struct {
	*raft.NetworkTransport
	calls  chan raft.RPC
	once   sync.Once
	done   chan struct{}
	ending sync.WaitGroup
}

func newVouching(t *raft.NetworkTransport) *vouching {
	v := &vouching{NetworkTransport: t, calls: make(chan raft.RPC), done: make(chan struct{})}
	v.ending.Go(v.pass)
	return v
}

// Consumer is where Raft takes calls from.
func (v *vouching) Consumer() <-chan raft.RPC { return v.calls }

// pass hands calls on.
func (v *vouching) pass() {
	for {
		select {
		case call := <-v.NetworkTransport.Consumer():
			if !vouch(call.Command) {
				call.Respond(nil, errNoTerm)
				continue
			}
			select {
			case v.calls <- call:
			case <-v.done:
				return
			}
		case <-v.done:
			return
		}
	}
}

// errNoTerm refuses entries of term 0, which nobody has: a node that leads with a
// cut log (guard G8) sends them in place of those it lacks.
var errNoTerm = errors.New("entries of no term")

// vouch bounds what a message commits, and tells whether it may be followed at
// all: Raft would cut its own entries first for those it can't store.
func vouch(command any) bool {
	a, ok := command.(*raft.AppendEntriesRequest)
	if !ok {
		return true
	}
	a.LeaderCommitIndex = min(a.LeaderCommitIndex, a.PrevLogEntry+uint64(len(a.Entries)))
	return !slices.ContainsFunc(a.Entries, func(l *raft.Log) bool { return l.Term == 0 })
}

// Close ends all calls.
func (v *vouching) Close() error {
	v.once.Do(func() { close(v.done) })
	v.ending.Wait()
	return v.NetworkTransport.Close()
}
