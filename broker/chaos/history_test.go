//go:build linux

package chaos

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// place is a partition of a topic.
type place struct {
	Topic     string
	Partition int32
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// verdict is what a producer was told of a record.
type verdict int

const (
	unknown verdict = iota // no answer, or one that leaves it open
	acked                  // it is there
	refused                // it is definitely not there
)

// anyPartition and anyEpoch stand for what a client doesn't tell.
const (
	anyPartition int32 = -1
	anyEpoch     int32 = -1
)

// value is what a record says. Producer, key and sequence together occur once.
type value struct {
	Producer string `json:"p"`
	Key      string `json:"k"`
	Seq      int64  `json:"s"`
	Time     string `json:"ts"`
}

func (v value) bytes() []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and a number
	}
	return b
}

// parseValue reads a record's value.
func parseValue(b []byte) (value, error) {
	var v value
	err := json.Unmarshal(b, &v)
	return v, err
}

// sent is a record a producer sent, and what came of it.
type sent struct {
	place
	value
	Verdict verdict
	Offset  int64 // of an acked one
	Node    int32 // who acked it, -1 when the client doesn't tell
	From    time.Duration
	To      time.Duration // since the run began; when the verdict came
	Err     string        // of one that isn't acked
}

// found is a record in the log.
type found struct {
	value
	Offset int64
	Epoch  int32 // leader epoch of its batch
}

// seen is a record that a reader was given while the run went on.
type seen struct {
	Reader string
	place
	found
}

// commit is a group's offset, as it was committed or fetched.
type commit struct {
	Group string
	place
	Offset int64
	From   time.Duration
	To     time.Duration
	Fetch  bool // it was asked for, not committed
}

// leads is who was leader of a partition in an epoch, by somebody's account.
type leads struct {
	place
	Epoch int32
	Node  int32
	Says  string
}

// history is all that a run's clients did and saw. It is filled by many
// goroutines through its methods and read by the checks once they have ended.
type history struct {
	mu      sync.Mutex
	began   time.Time
	Sent    []sent
	Seen    []seen
	Commits []commit
	Fetched []commit // offsets that were asked for while the run went on
	Leaders map[leads]bool
	Refused []string // what a reader was told that must not happen

	// Read from the cluster once it has healed.
	Log   map[place][]found
	Start map[place]int64
	Final []commit        // the groups' offsets at the end, fetched
	Keyed map[string]bool // topics that are compacted
}

func newHistory() *history {
	return &history{
		began: time.Now(), Leaders: map[leads]bool{}, Log: map[place][]found{},
		Start: map[place]int64{}, Keyed: map[string]bool{},
	}
}

// now is the time since the run began.
func (h *history) now() time.Duration { return time.Since(h.began) }

func (h *history) send(s sent) {
	h.mu.Lock()
	h.Sent = append(h.Sent, s)
	h.mu.Unlock()
}

func (h *history) see(s seen) {
	h.mu.Lock()
	h.Seen = append(h.Seen, s)
	h.mu.Unlock()
}

func (h *history) commit(c commit) {
	h.mu.Lock()
	h.Commits = append(h.Commits, c)
	h.mu.Unlock()
}

func (h *history) lead(l leads) {
	h.mu.Lock()
	h.Leaders[l] = true
	h.mu.Unlock()
}

// complain notes an answer that no client should ever get.
func (h *history) complain(format string, args ...any) {
	h.mu.Lock()
	h.Refused = append(h.Refused, fmt.Sprintf(format, args...))
	h.mu.Unlock()
}
