package jobs

import (
	"crypto/rand"
	"fmt"
	"slices"
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
	// Mark names the event to whoever asks for what came after it. It is of this
	// scheduler only, as ID is.
	Mark string `json:"-"`
}

const (
	// eventBuffer is how far a subscriber may fall behind before it is cut off.
	eventBuffer = 512
	// eventsKept is how many events are remembered for subscribers that were away.
	eventsKept = 2048
)

// events hands every event to every subscriber. One that does not keep up has
// its channel closed; it starts again from its last event or, where that is no
// longer remembered, from the state itself. Subscribers share the events, so
// that a thousand of them cost little more than their channels.
type events struct {
	mu     sync.Mutex
	term   string // distinguishes this scheduler's marks from those of others
	last   int64
	kept   []*Event // the last ones, in order
	subs   map[chan *Event]bool
	closed bool
}

// subscribe begins behind the event that mark names, and gives those that came
// since. known is false where that event is not remembered; with an empty mark
// it begins with the next event.
func (e *events) subscribe(mark string) (feed <-chan *Event, missed []*Event, known bool, cancel func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	known = mark == ""
	if !known {
		if i := slices.IndexFunc(e.kept, func(ev *Event) bool { return ev.Mark == mark }); i >= 0 {
			missed, known = slices.Clone(e.kept[i+1:]), true
		}
	}
	ch := make(chan *Event, eventBuffer)
	if e.closed {
		close(ch)
		return ch, missed, known, func() {}
	}
	if e.subs == nil {
		e.subs = map[chan *Event]bool{}
	}
	e.subs[ch] = true
	return ch, missed, known, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.drop(ch)
	}
}

func (e *events) drop(ch chan *Event) {
	if e.subs[ch] {
		delete(e.subs, ch)
		close(ch)
	}
}

func (e *events) send(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == "" {
		e.term = rand.Text()[:8]
	}
	e.last++
	ev.ID, ev.Mark = e.last, fmt.Sprintf("%s-%d", e.term, e.last)
	if len(e.kept) == eventsKept {
		e.kept = append(e.kept[:0:0], e.kept[eventsKept/2:]...)
	}
	e.kept = append(e.kept, &ev)
	for ch := range e.subs {
		select {
		case ch <- &ev:
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
