package hdfs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/colinmarc/hdfs/v2"

	"sawlog/loader/sink"
)

// limits are the times of a sink; tests have shorter ones.
type limits struct {
	call    time.Duration // of one answer of a NameNode
	idle    time.Duration // of a DataNode that neither takes nor gives bytes
	patient time.Duration // how long a call is repeated
	first   time.Duration // before the first repetition, then twice as long each time
	longest time.Duration // between two repetitions
	doubt   time.Duration // how long a file whose end was lost may take to become whole
	rest    time.Duration // without a call, after which the connection is given up
}

// usual: Hadoop's own clients wait 60 s for a DataNode. A NameNode that
// restarts is back within a minute on most clusters; where it isn't, the run
// ends with an error that says so and may be started again.
var usual = limits{call: 30 * time.Second, idle: 60 * time.Second, patient: 60 * time.Second, first: 50 * time.Millisecond, longest: 5 * time.Second, doubt: 5 * time.Second, rest: 10 * time.Second}

// grace is how long connections go on once the sink's context is done: for the
// answer that is just coming, and to take half a file away.
const grace = time.Second

// within are the limits of who waits no longer than this for a call; 0 = as usual.
func (l limits) within(patience time.Duration) limits {
	if patience > 0 {
		l.patient, l.call, l.idle = patience, min(l.call, patience), min(l.idle, patience)
	}
	return l
}

// patience is the waiting of one act between its tries.
type patience struct {
	ctx   context.Context
	end   time.Time
	pause time.Duration
	most  time.Duration
}

func (s *Sink) patience() *patience {
	l := s.limits
	return &patience{ctx: s.ctx, end: time.Now().Add(l.patient), pause: l.first, most: l.longest}
}

// wait pauses before another try, and says whether there is to be one. Pauses
// differ, so that those who failed together don't return together.
func (p *patience) wait() bool {
	pause := p.pause/2 + rand.N(p.pause)
	if time.Now().Add(pause).After(p.end) {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-p.ctx.Done():
		return false
	case <-timer.C:
	}
	p.pause = min(2*p.pause, p.most)
	return p.ctx.Err() == nil
}

// again pauses before an act that takes its own time is done anew, and says
// whether it is to be.
func (p *patience) again() bool {
	p.end = time.Now().Add(2 * p.most)
	return p.wait()
}

// spent is the error of an act that isn't tried again.
func (s *Sink) spent(op, name string, err error, class sink.Class) error {
	if cut := s.ctx.Err(); cut != nil {
		err = fmt.Errorf("%w: %w", cut, plain(err))
	}
	return classify(op, name, err, class)
}

// enter begins an act that needs the connection.
func (s *Sink) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts++
	if s.tired != nil {
		s.tired.Stop()
	}
	if s.unbind == nil {
		s.unbind = context.AfterFunc(s.ctx, func() { time.AfterFunc(grace, s.end) })
	}
}

// free takes leave of the context, which may live for much longer. The caller
// holds mu.
func (s *Sink) free() {
	if s.unbind != nil && s.acts == 0 {
		s.unbind()
		s.unbind = nil
	}
}

// leave ends it. A sink that is asked for nothing keeps no connection, whose
// lease the library would renew each second for ever.
func (s *Sink) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acts--; s.acts > 0 {
		return
	}
	if s.client == nil {
		s.free()
		return
	}
	if s.tired == nil {
		s.tired = time.AfterFunc(s.limits.rest, s.disconnect)
	} else {
		s.tired.Reset(s.limits.rest)
	}
}

// disconnect gives the connection up, unless an act needs it.
func (s *Sink) disconnect() {
	s.mu.Lock()
	if s.acts > 0 {
		s.mu.Unlock()
		return
	}
	hangUp := s.hangUp
	s.client, s.hangUp = nil, nil
	s.free()
	s.mu.Unlock()
	if hangUp != nil {
		_ = hangUp() // nothing is under way on it
	}
}

// spares is how often each NameNode stands in the library's list. It passes over
// an address for 5 s after a connection to it broke, so that with one entry each
// restart of a NameNode would cost as much.
const spares = 4

// connect returns the client, and makes it when there is none.
func (s *Sink) connect() (*hdfs.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	// The library may connect once more while it is closed, to renew a lease, and
	// nobody would close that connection.
	names, end := context.WithCancel(s.late)
	options, _, err := s.target.options(wire{s.limits, names}.dialNameNode, wire{s.limits, s.late}.dialDataNode)
	if err != nil {
		end()
		var login *loginError
		return nil, &unsentError{err, !errors.As(err, &login) || login.denied}
	}
	all := options.Addresses
	for range spares - 1 {
		options.Addresses = append(options.Addresses, all...)
	}
	client, err := hdfs.NewClient(options)
	if err != nil {
		end()
		return nil, &unsentError{err, false}
	}
	hangUp := func() error {
		defer end()
		return client.Close()
	}
	if err := fit(client.Stat, s.target.dir); err != nil {
		_ = hangUp() // nothing was asked of it but a look
		return nil, &unsentError{err, outcomeOf(err) == answered}
	}
	s.client, s.hangUp = client, hangUp
	return client, nil
}

// ask makes a call that changes nothing, again and again while no answer comes.
func (s *Sink) ask(op, name string, call func(*hdfs.Client) error) error {
	s.enter()
	defer s.leave()
	wait := s.patience()
	for {
		c, err := s.connect()
		if err == nil {
			err = call(c)
		}
		if err == nil || outcomeOf(err) == answered {
			return classify(op, name, err, sink.Permanent)
		}
		if !wait.wait() {
			return s.spent(op, name, err, sink.Retryable)
		}
	}
}

// change makes a call that changes something. Where it isn't known whether it
// did, done looks, and the call is repeated while the change isn't there.
func (s *Sink) change(op, name string, call func(*hdfs.Client) error, done func(*hdfs.Client) (bool, error)) error {
	s.enter()
	defer s.leave()
	wait := s.patience()
	lost := false // an earlier try may have worked, or may work late
	for {
		c, err := s.connect()
		if err == nil {
			err = call(c)
		}
		if err == nil {
			return nil
		}
		outcome := outcomeOf(err)
		lost = lost || outcome == unknown
		if lost && c != nil {
			did, look := done(c)
			if look == nil && did {
				return nil
			}
			if look != nil && outcomeOf(look) != answered {
				outcome = unknown // what refuses this try may be what an earlier one has done
			}
		}
		if outcome == answered {
			return classify(op, name, err, sink.Permanent)
		}
		if !wait.wait() {
			if lost {
				return s.spent(op, name, err, sink.Ambiguous)
			}
			return s.spent(op, name, err, sink.Retryable)
		}
	}
}
