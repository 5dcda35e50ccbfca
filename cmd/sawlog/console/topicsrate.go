package console

import (
	"fmt"
	"sync"
	"time"
)

// rates remembers where topics ended when a page showed them last, so that the
// next look can tell how fast they grow. Records carry times of their own, which
// may lie far from the moment they came, so these are no help.
type rates struct {
	mu   sync.Mutex
	seen map[string]rateMark
}

// rateMark is where a topic ended at a moment, and the rate up to then.
type rateMark struct {
	at   time.Time
	end  int64
	text string
}

const (
	rateLeast = 5 * time.Second  // looks closer together tell too little
	rateMost  = 10 * time.Minute // looks farther apart tell of another time
	rateRoom  = 10_000           // topics remembered
)

// note takes in where a topic ends, unless that is not known, and says how many
// records a second came since the last look; "" = not known yet.
func (r *rates) note(topic string, known bool, end int64, now time.Time) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	was, before := r.seen[topic]
	past := now.Sub(was.at)
	switch {
	case !known:
		return ""
	case before && past >= 0 && past < rateLeast:
		return was.text
	}
	mark := rateMark{at: now, end: end}
	if before && past <= rateMost && end >= was.end {
		mark.text = perSecond(float64(end-was.end) / past.Seconds())
	}
	if r.seen == nil || len(r.seen) >= rateRoom {
		r.seen = map[string]rateMark{}
	}
	r.seen[topic] = mark
	return mark.text
}

func perSecond(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate < 10:
		return fmt.Sprintf("%.2f", rate)
	}
	return count(int64(rate + 0.5))
}
