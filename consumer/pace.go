package consumer

import (
	"context"
	"sync"
	"time"
)

// Pace holds readers to a rate of bytes a second, all that share it together: a
// token bucket that holds a second's worth. A fetch is let through while there is
// anything in the bucket and is counted once it has come, so that the bucket may
// be in debt by one fetch. Fetched bytes are those of the log, compressed as
// they are there.
type Pace struct {
	rate float64

	mu    sync.Mutex
	left  float64   // bytes
	at    time.Time // of the last fill
	bytes int64
	held  time.Duration
}

// NewPace is a pace of so many bytes a second; 0 = no limit, only counted.
func NewPace(rate int64) *Pace {
	return &Pace{rate: float64(rate), left: float64(rate), at: time.Now()}
}

// Bytes is how much was fetched.
func (p *Pace) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// Held is for how long fetches have waited.
func (p *Pace) Held() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// fetched counts the bytes of a fetch.
func (p *Pace) fetched(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	p.left -= float64(n)
}

// hold waits until the next fetch may begin.
func (p *Pace) hold(ctx context.Context) error {
	pause := p.pause(time.Now())
	if pause <= 0 {
		return nil
	}
	began := time.Now()
	err := wait(ctx, pause)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += time.Since(began)
	return err
}

// pause fills the bucket and tells how long it takes until something is in it.
func (p *Pace) pause(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rate <= 0 {
		return 0
	}
	p.left = min(p.rate, p.left+p.rate*now.Sub(p.at).Seconds())
	p.at = now
	if p.left > 0 {
		return 0
	}
	return time.Duration(-p.left/p.rate*float64(time.Second)) + time.Millisecond
}

// most is how much is to be fetched at a time: what a second brings, or half a
// minute would pass without a byte.
func (p *Pace) most(size int) int {
	if p.rate <= 0 {
		return size
	}
	return min(size, max(int(min(p.rate, 1<<30)), leastFetch))
}

// leastFetch is the least that a fetch of a slow reader asks for.
const leastFetch = 16 << 10
