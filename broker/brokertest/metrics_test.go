package brokertest_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sawlog/broker/brokertest"
)

// TestClusterMetrics takes a broker away and gives it back: each number moves
// when it should, and all are quiet before and after.
func TestClusterMetrics(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *brokertest.Cluster, cl *kgo.Client) {
		create(t, cl, "strict", 6, 3, "min.insync.replicas", "3")
		create(t, cl, "single", 6, 1)
		l := newLoad()
		l.send(t, cl, "before", 30)
		awaitISR(t, c, 3)
		quiet := func(when string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			m := sum(c)
			if m.ActiveController != 1 || m.Fenced+m.FencedBrokers+m.Offline+m.UnderReplicated+m.UnderMinISR+m.AtMinISR+m.Reassigning != 0 || m.Lag != 0 {
				t.Errorf("%s: %+v", when, m)
			}
		}
		quiet("before")
		c.Nodes[2].Kill()
		before := sum(c)
		l.send(t, cl, "without", 30)
		time.Sleep(2 * time.Second)
		m := sum(c)
		for name, moved := range map[string]bool{
			"fenced brokers":   m.FencedBrokers == 2, // as two brokers see it
			"offline":          m.Offline == 4,       // two of six, as two see it
			"under-replicated": m.UnderReplicated >= 9,
			"under min ISR":    m.UnderMinISR == 6,
			"at min ISR":       m.AtMinISR >= 3,
			"shrinks":          m.ISRShrinks > before.ISRShrinks,
			"elections":        m.Elections > before.Elections,
			"takeovers":        m.Takeovers > before.Takeovers,
			"committed":        m.Committed > 0 && m.Applied > 0,
			"controller":       m.ActiveController == 1,
		} {
			if !moved {
				t.Errorf("without a broker, %s: %+v", name, m)
			}
		}
		for _, other := range c.Nodes[:2] {
			c.Fabric.Delay(other.Host, "n3", 100*time.Millisecond)
		}
		c.Nodes[2].Start()
		lagged := int64(0)
		for range 200 {
			lagged = max(lagged, sum(c).Lag)
			time.Sleep(5 * time.Millisecond)
		}
		if lagged == 0 {
			t.Error("no follower was ever seen behind")
		}
		c.Fabric.Heal()
		c.Settle()
		awaitISR(t, c, 3)
		quiet("after")
		if now := sum(c); now.ISRExpands <= m.ISRExpands {
			t.Errorf("copies came back, expands %d", now.ISRExpands)
		}
		cl.Close()
		check(t, c, l)
	})
}

// total is the numbers of all brokers that run, added up.
type total struct {
	ActiveController, Fenced                            int64
	FencedBrokers, Offline                              int64
	UnderReplicated, UnderMinISR, AtMinISR, Reassigning int64
	ISRShrinks, ISRExpands, Elections, Takeovers        int64
	Committed, Applied                                  int64
	Lag                                                 int64 // the greatest
}

func sum(c *brokertest.Cluster) (t total) {
	flag := func(set bool) int64 {
		if set {
			return 1
		}
		return 0
	}
	for _, n := range c.Nodes {
		if n.Broker == nil {
			continue
		}
		m := n.Broker.ClusterMetrics()
		t.ActiveController += flag(m.ActiveController)
		t.Fenced += flag(m.Fenced)
		t.FencedBrokers += m.FencedBrokers
		t.Offline += m.Offline
		t.UnderReplicated += m.UnderReplicated
		t.UnderMinISR += m.UnderMinISR
		t.AtMinISR += m.AtMinISR
		t.Reassigning += m.Reassigning
		t.ISRShrinks += m.ISRShrinks
		t.ISRExpands += m.ISRExpands
		t.Elections += m.Elections
		t.Takeovers += m.Takeovers
		t.Committed = max(t.Committed, m.Committed)
		t.Applied = max(t.Applied, m.Applied)
		for _, behind := range m.Lag {
			t.Lag = max(t.Lag, behind)
		}
	}
	return t
}
