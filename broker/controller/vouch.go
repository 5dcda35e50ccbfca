package controller

import (
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
			vouch(call.Command)
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

func vouch(command any) {
	if a, ok := command.(*raft.AppendEntriesRequest); ok {
		a.LeaderCommitIndex = min(a.LeaderCommitIndex, a.PrevLogEntry+uint64(len(a.Entries)))
	}
}

// Close ends all calls.
func (v *vouching) Close() error {
	v.once.Do(func() { close(v.done) })
	v.ending.Wait()
	return v.NetworkTransport.Close()
}
