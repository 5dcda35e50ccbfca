package replica

import (
	"math"
	"sync"
	"time"
)

// Throttle is what replicas that aren't in sync may move in a second, all of a
// broker's together: while partitions move to other brokers it leaves room for
// the rest. Those in sync are never held up, and count for nothing.
type Throttle struct {
	mu     sync.Mutex
	limit  bool
	bucket bucket
}

// SetRate sets the bytes a second; math.MaxInt64 is no limit.
func (t *Throttle) SetRate(rate int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := rate < math.MaxInt64
	if limit == t.limit && t.bucket.rate == float64(rate) {
		return
	}
	t.limit, t.bucket = limit, bucket{rate: float64(rate), left: float64(rate), at: time.Now().UnixMilli()}
}

// room is how many bytes may be moved now.
func (t *Throttle) room() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limit {
		return math.MaxInt64
	}
	t.bucket.fill(time.Now().UnixMilli())
	return max(0, int64(t.bucket.left))
}

// moved counts bytes.
func (t *Throttle) moved(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bucket.left -= float64(n)
}

// wait is for how long nothing is to be moved.
func (t *Throttle) wait() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limit {
		return 0
	}
	t.bucket.fill(time.Now().UnixMilli())
	return time.Duration(t.bucket.wait()) * time.Millisecond
}

// Throttle names what holds a replica up while it leads, for followers that are
// behind, and while it is behind itself; nil is nothing.
func (p *Partition) Throttle(leading, following *Throttle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowLeading, p.slowFollowing = leading, following
}

// slowed is what holds this replica up as a follower; nil: nothing.
func (p *Partition) slowed() *Throttle {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.slowFollowing == nil || !p.state.Behind(p.state.self) {
		return nil
	}
	return p.slowFollowing
}

// rests is for how long this replica, as a follower, is to be asked for nothing.
func (p *Partition) rests() time.Duration {
	slow := p.slowed()
	if slow == nil {
		return 0
	}
	return slow.wait()
}
