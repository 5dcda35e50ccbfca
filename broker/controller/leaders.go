package controller

import (
	"log/slog"
	"sync"

	"github.com/hashicorp/raft"
)

// leaders tells when another node leads, or none, as far as this one knows.
type leaders struct {
	logger   *slog.Logger
	observer *raft.Observer
	seen     chan raft.Observation

	mu      sync.Mutex
	next    chan struct{} // closed at the next change
	current raft.ServerID // the last that led
	before  raft.ServerID // and who led before it; "" = nobody else
}

func newLeaders(logger *slog.Logger) *leaders {
	l := &leaders{logger: logger, seen: make(chan raft.Observation, 64), next: make(chan struct{})}
	l.observer = raft.NewObserver(l.seen, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.RaftState, raft.FailedHeartbeatObservation, raft.ResumedHeartbeatObservation:
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
	silent := map[raft.ServerID]bool{} // that don't answer this node's heartbeats
	for {
		select {
		case o := <-l.seen:
			switch o := o.Data.(type) {
			case raft.FailedHeartbeatObservation:
				if !silent[o.PeerID] {
					l.logger.Warn("a node doesn't answer the active controller", "node", o.PeerID, "since", o.LastContact)
				}
				silent[o.PeerID] = true
			case raft.ResumedHeartbeatObservation:
				l.logger.Info("a node answers the active controller again", "node", o.PeerID)
				delete(silent, o.PeerID)
			case raft.LeaderObservation:
				clear(silent)
				l.tell(o.LeaderID)
			default:
				l.tell("")
			}
		case <-closing:
			return
		}
	}
}

func (l *leaders) tell(leader raft.ServerID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader != "" {
		l.before = ""
		if l.current != leader {
			l.before = l.current
		}
		l.current = leader
	}
	close(l.next)
	l.next = make(chan struct{})
}

// replaced is the node that a leader, which must be the present one, has taken
// over from; "" = nobody, or it isn't known.
func (l *leaders) replaced(leader raft.ServerID) raft.ServerID {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current != leader {
		return ""
	}
	return l.before
}
