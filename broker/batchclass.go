package broker

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The batch class is the fetches of load tasks, known by their client id
// (wire.BatchPrefix). A load reads hours of log as fast as it gets them, and has
// time; who follows the end of a log has not. So what all loads together are sent
// by a broker can be bounded, as Kafka's quotas do it (KIP-219): an answer goes
// out at once, tells in throttle_time_ms for how long its reader is to rest, and
// until then nothing that the connection sends is looked at.
//
// What was sent is a debt that the rate works off. A reader rests until all is
// paid for that was sent before it may ask again, so readers come to their turn
// in the order of their answers, and no queue of them is kept.

const batchRateKey = "batch.bytes.per.second"

// classSettings may be given at the start of a broker, and changed while it runs.
var classSettings = [...]setting{
	{batchRateKey, kmsg.ConfigTypeLong, "0", batchRateKey, intIn(0, 1<<50), "Bytes of log that load tasks together are sent in a second at most; 0 is no limit."},
}

func findClassSetting(name string) (*setting, bool) {
	for i := range classSettings {
		if classSettings[i].name == name {
			return &classSettings[i], true
		}
	}
	return nil, false
}

// batchRate is the rate in force, in bytes a second; 0 is no limit.
func (l layers) batchRate() int64 {
	s, _ := findClassSetting(batchRateKey) // it is in the table
	v, _ := l.find(s)
	n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64) // checked when it was set
	return n
}

const (
	// batchSlices is how many answers a second's bytes make at least: others wait
	// behind one answer at a time.
	batchSlices = 10
	// longestRest bounds what a reader is told to rest: clients give a request up
	// after half a minute. Batches so long that the rate would want more time go
	// faster than it.
	longestRest = 10 * time.Second
)

// batchClass is what load tasks were sent, and may be.
type batchClass struct {
	mu   sync.Mutex
	rate float64   // bytes a second; 0 = no limit
	debt float64   // bytes sent that aren't paid for; below 0, a slice saved up
	at   time.Time // when debt was right
}

// setRate sets the bytes a second; 0 is no limit.
func (c *batchClass) setRate(rate int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate != float64(rate) {
		c.rate, c.debt, c.at = float64(rate), 0, time.Now()
	}
}

// limit is the rate, in bytes a second; 0 is no limit.
func (c *batchClass) limit() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return int64(c.rate)
}

// most is how much of n bytes one answer may carry.
func (c *batchClass) most(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate == 0 {
		return n
	}
	return min(n, max(int64(c.rate/batchSlices), 1))
}

// sent counts the bytes of an answer, and tells for how long its reader is to
// rest.
func (c *batchClass) sent(n int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rate == 0 || n == 0 {
		return 0
	}
	now := time.Now()
	paid := c.rate * now.Sub(c.at).Seconds()
	c.debt, c.at = max(c.debt-paid, -c.rate/batchSlices)+float64(n), now
	c.debt = min(c.debt, c.rate*longestRest.Seconds())
	return max(0, time.Duration(c.debt/c.rate*float64(time.Second)))
}
