package jobs

import (
	"sync"
	"time"
)

// Event is something that happened: a run changed, a task went on, an hour
// changed, a job changed, a backfill changed.
type Event struct {
	ID      int64     `json:"id"`
	Kind    string    `json:"kind"` // run | task | hour | job | backfill
	At      time.Time `json:"at"`
	Job     string    `json:"job"`
	Dataset string    `json:"dataset,omitempty"`
	Run     string    `json:"run,omitempty"`
	// Backfill is the backfill that changed.
	Backfill string `json:"backfill,omitempty"`
	// Status of a run or backfill; of a job: applied, deleted, paused, resumed,
	// catching up, stale, fresh.
	Status string    `json:"status,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Hours  []string  `json:"hours,omitempty"` // an hour event: those that changed, RFC 3339
	Step   *Progress `json:"progress,omitempty"`
}

// eventBuffer is how far a subscriber may fall behind before it is cut off.
const eventBuffer = 512

// events hands every event to every subscriber. One that does not keep up has
// its channel closed; it starts again from the state itself.
type events struct {
	mu     sync.Mutex
	last   int64
	subs   map[chan Event]bool
	closed bool
}

func (e *events) subscribe() (<-chan Event, func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ch := make(chan Event, eventBuffer)
	if e.closed {
		close(ch)
		return ch, func() {}
	}
	if e.subs == nil {
		e.subs = map[chan Event]bool{}
	}
	e.subs[ch] = true
	return ch, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.drop(ch)
	}
}

func (e *events) drop(ch chan Event) {
	if e.subs[ch] {
		delete(e.subs, ch)
		close(ch)
	}
}

func (e *events) send(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last++
	ev.ID = e.last
	for ch := range e.subs {
		select {
		case ch <- ev:
		default:
			e.drop(ch)
		}
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	for ch := range e.subs {
		e.drop(ch)
	}
}
