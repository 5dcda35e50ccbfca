package controller

import (
	"sync"

	"github.com/hashicorp/raft"
)

// leaders tells when another node leads, or none, as far as this one knows.
type leaders struct {
	observer *raft.Observer
	seen     chan raft.Observation

	mu   sync.Mutex
	next chan struct{} // closed at the next change
}

func newLeaders() *leaders {
	l := &leaders{seen: make(chan raft.Observation, 64), next: make(chan struct{})}
	l.observer = raft.NewObserver(l.seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState:
			return true
		}
		return false
	})
	return l
}

// changed is closed when that changes.
func (l *leaders) changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// watch tells of changes until closing.
func (l *leaders) watch(closing <-chan struct{}) {
	for {
		select {
		case <-l.seen:
			l.mu.Lock()
			close(l.next)
			l.next = make(chan struct{})
			l.mu.Unlock()
		case <-closing:
			return
		}
	}
}
