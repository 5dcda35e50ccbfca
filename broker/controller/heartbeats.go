package controller

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"sawlog/broker/peer"
)

const (
	sessionTimeoutKey = "broker.session.timeout.ms"
	sessionTimeout    = 600 // ms
	// lookEvery is how often the active controller looks for brokers that are silent.
	lookEvery = 50 * time.Millisecond
)

// peerListener is the name of the endpoint other nodes reach a broker at.
const peerListener = "PEER"

// probeAfter is when a broker whose connection closed is tried again, if it
// didn't refuse before: a process that ends closes one thing after the other.
var probeAfter = []time.Duration{0, 10 * time.Millisecond, 50 * time.Millisecond}

// heartbeats is what the active controller hears of brokers. Its lock is held
// for no longer than it takes to look at them: who hangs on a disk never keeps
// a beat waiting.
type heartbeats struct {
	began time.Time

	mu       sync.Mutex
	term     uint64 // the sessions are of; 0 = none
	sessions *sessions

	changing atomic.Bool  // a change of brokers is on its way
	leased   atomic.Int64 // when the last beat that found this broker in service was sent, ms after began; 0 = never
}

// now is in ms, by a clock nobody sets.
func (h *heartbeats) now() int64 { return time.Since(h.began).Milliseconds() + 1 }

// Heartbeat tells the active controller that a broker lives. It tries once.
func (c *Controller) Heartbeat(ctx context.Context, b Beat) (Beaten, error) {
	sent := c.beats.now()
	to, err := c.beat(ctx, b)
	if err == nil && !to.Fenced {
		c.beats.leased.Store(sent)
	}
	return to, err
}

func (c *Controller) beat(ctx context.Context, b Beat) (Beaten, error) {
	if c.raft.State() == raft.Leader {
		return c.takeBeat(b)
	}
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout*time.Millisecond)
	defer cancel()
	src, err := c.callLeader(ctx, c.leaders.changed(), beatMethod, b.encode())
	if err != nil {
		return Beaten{}, err
	}
	r := &reader{src: src}
	flags, refusal := r.uint8(), r.refusal()
	if err := r.done(); err != nil {
		return Beaten{}, err
	}
	return Beaten{flags&1 != 0, flags&2 != 0}, refusal
}

// Leased tells whether the active controller can't have taken this node's
// broker out of service yet: a beat that found it in service was sent less than
// a session ago. A node alone always is.
func (c *Controller) Leased() bool {
	if c.peers == nil || c.alone() {
		return true
	}
	at := c.beats.leased.Load()
	return at != 0 && c.beats.now()-at < c.sessionTimeout()
}

// Session is for how long a broker may be silent before it is taken out of service.
func (c *Controller) Session() time.Duration {
	return time.Duration(c.sessionTimeout()) * time.Millisecond
}

func (c *Controller) sessionTimeout() int64 {
	return int64(c.settings.number(c.Image(), nil, sessionTimeoutKey, sessionTimeout))
}

func (b Beat) encode() []byte {
	dst := appendInt64(appendInt64(appendInt32(nil, b.Broker), b.Epoch), b.Applied)
	return appendBool(appendBool(appendBool(dst, b.WantUnfence), b.WantShutdown), b.Full)
}

func decodeBeat(src []byte) (Beat, error) {
	r := &reader{src: src}
	b := Beat{Broker: r.brokerID(), Epoch: r.int64(), Applied: uint64(r.int64())}
	b.WantUnfence, b.WantShutdown, b.Full = r.bool(), r.bool(), r.bool()
	return b, r.done()
}

// serveBeat answers another node's broker.
func (c *Controller) serveBeat(_ context.Context, _ peer.Identity, body []byte) ([]byte, error) {
	b, err := decodeBeat(body)
	if err != nil {
		return nil, err
	}
	to, refusal := c.takeBeat(b)
	var flags uint8
	if to.Fenced {
		flags |= 1
	}
	if to.MayShutdown {
		flags |= 2
	}
	return appendRefusal([]byte{flags}, refusal), nil
}

// takeBeat takes a beat on the active controller.
func (c *Controller) takeBeat(b Beat) (Beaten, error) {
	h := &c.beats
	h.mu.Lock()
	defer h.mu.Unlock()
	if !c.leads() || h.term != c.led.Load() {
		return Beaten{}, fmt.Errorf("%w: no beats are taken here", ErrNotController)
	}
	return h.sessions.beat(h.now(), b, c.Image())
}

// leads tells whether this node is the active controller and has taken over.
func (c *Controller) leads() bool {
	return c.raft.State() == raft.Leader && c.led.Load() == c.raft.CurrentTerm()
}

// watchBrokers takes brokers in and out of service while this node is the
// active controller.
func (c *Controller) watchBrokers() {
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-c.look:
		case b := <-c.suspects:
			c.running.Go(func() { c.suspect(b) })
			continue
		case <-c.closing:
			return
		}
		if c.leads() {
			c.lookAtBrokers()
		}
	}
}

func (c *Controller) lookAtBrokers() {
	h := &c.beats
	im, term := c.Image(), c.led.Load()
	h.mu.Lock()
	fresh := h.term != term
	if fresh {
		h.term, h.sessions = term, newSessions(c.sessionTimeout(), h.now())
		c.blameFormer(im)
	}
	h.sessions.timeout = c.sessionTimeout()
	changes := h.sessions.due(h.now(), im)
	h.mu.Unlock()
	if fresh {
		for i := range im.Brokers {
			if b := &im.Brokers[i]; b.ID != c.node && !b.Fenced {
				c.running.Go(func() { c.suspect(*b) }) // it may have died with the leader before
			}
		}
	}
	if len(changes) == 0 || !h.changing.CompareAndSwap(false, true) {
		return
	}
	c.running.Go(func() {
		defer h.changing.Store(false)
		o := c.propose(c.closed, changeBrokersAsk{changes})
		for i, change := range changes {
			if err := errors.Join(o.err, o.answer.refusal(i)); err != nil {
				c.logger.Warn("a broker is not taken in or out of service", "broker", change.ID, "fenced", change.Fenced, "shuttingDown", change.ShuttingDown, "full", change.Full, "error", err)
				continue
			}
			c.logger.Info("a broker's service changes", "broker", change.ID, "fenced", change.Fenced, "shuttingDown", change.ShuttingDown, "full", change.Full)
		}
	})
}

// blameFormer counts the silence that made this node the active controller on
// the session of the node that was it before. The lock is held.
func (c *Controller) blameFormer(im *Image) {
	h := &c.beats
	m, ok := parseServerID(c.leaders.replaced(c.self))
	b, known := im.Broker(m.ID)
	last := c.raft.LastContact()
	if !ok || !known || last.IsZero() {
		return
	}
	h.sessions.silent(b, h.now()-time.Since(last).Milliseconds(), h.now(), im)
}

// closedBy is told that the connection of calls of a node has ended. A node that
// joined over it didn't have its id then, so its incarnation says who it is.
func (c *Controller) closedBy(from peer.Identity) {
	if !c.leads() {
		return
	}
	brokers := c.Image().Brokers
	i := slices.IndexFunc(brokers, func(b Broker) bool { return b.Incarnation == UUID(from.Incarnation) && !b.Fenced })
	if i < 0 {
		return
	}
	select {
	case c.suspects <- brokers[i]:
	default: // its session ends all the same
	}
}

// suspect takes a broker out of service when nobody listens at its address any
// more: its process has ended.
func (c *Controller) suspect(b Broker) {
	addr, ok := b.peerAddr()
	if !ok {
		return
	}
	if c.refuses(addr) {
		c.lost(b)
	}
}

func (c *Controller) lost(b Broker) {
	c.logger.Info("a broker's process has ended", "broker", b.ID)
	h := &c.beats
	h.mu.Lock()
	if h.sessions != nil {
		h.sessions.lost(b.ID, b.Epoch)
	}
	h.mu.Unlock()
	select {
	case c.look <- struct{}{}:
	default:
	}
}

// peerAddr is where other nodes reach a broker.
func (b *Broker) peerAddr() (string, bool) {
	for _, e := range b.Endpoints {
		if e.Listener == peerListener {
			return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))), true
		}
	}
	return "", false
}
