package replica

import (
	"slices"

	"sawlog/offsets"
)

// bucket is bytes that may still be moved now: it fills at a rate, holds a second
// of it, and may be overdrawn, since batches are moved whole.
type bucket struct {
	rate float64 // bytes a second
	left float64
	at   int64 // ms, of the last fill
}

func (b *bucket) fill(now int64) {
	if now > b.at {
		b.left = min(b.rate, b.left+b.rate*float64(now-b.at)/1000)
		b.at = now
	}
}

// wait is how many ms it takes until there is something in it.
func (b *bucket) wait() int64 {
	if b.left > 0 {
		return 0
	}
	if b.rate <= 0 {
		return maxWait
	}
	return min(maxWait, 1+int64(-b.left/b.rate*1000))
}

// maxWait is for how long, in ms, a throttled replica rests at most: its rate may
// have been changed meanwhile.
const maxWait = 1000

// Behind tells whether a replica, here or on another broker, isn't in sync.
func (s *State) Behind(id offsets.BrokerID) bool {
	return !slices.Contains(s.assigned.ISR, id)
}
