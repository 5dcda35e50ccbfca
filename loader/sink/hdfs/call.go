package hdfs

import (
	"errors"
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

// patience is the waiting of one act between its tries.
type patience struct {
	end   time.Time
	pause time.Duration
	most  time.Duration
}

func (l limits) patience() *patience {
	return &patience{end: time.Now().Add(l.patient), pause: l.first, most: l.longest}
}

// wait pauses before another try, and says whether there is to be one. Pauses
// differ, so that those who failed together don't return together.
func (p *patience) wait() bool {
	pause := p.pause/2 + rand.N(p.pause)
	if time.Now().Add(pause).After(p.end) {
		return false
	}
	time.Sleep(pause)
	p.pause = min(2*p.pause, p.most)
	return true
}

// again pauses before an act that takes its own time is done anew.
func (p *patience) again() {
	p.end = time.Now().Add(2 * p.most)
	p.wait()
}

// enter begins an act that needs the connection.
func (s *Sink) enter() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acts++
	if s.tired != nil {
		s.tired.Stop()
	}
}

// leave ends it. A sink that is asked for nothing keeps no connection, whose
// lease the library would renew each second for ever.
func (s *Sink) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.acts--; s.acts > 0 || s.client == nil {
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
	client := s.client
	if s.acts > 0 {
		client = nil
	} else {
		s.client = nil
	}
	s.mu.Unlock()
	if client != nil {
		_ = client.Close() // nothing is under way on it
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
	options, _, err := s.target.options(s.limits.dialNameNode, s.limits.dialDataNode)
	if err != nil {
		var login *loginError
		return nil, &unsentError{err, !errors.As(err, &login) || login.denied}
	}
	all := options.Addresses
	for range spares - 1 {
		options.Addresses = append(options.Addresses, all...)
	}
	client, err := hdfs.NewClient(options)
	if err != nil {
		return nil, &unsentError{err, false}
	}
	if err := fit(client.Stat, s.target.dir); err != nil {
		_ = client.Close() // nothing was asked of it but a look
		return nil, &unsentError{err, outcomeOf(err) == answered}
	}
	s.client = client
	return client, nil
}

// ask makes a call that changes nothing, again and again while no answer comes.
func (s *Sink) ask(op, name string, call func(*hdfs.Client) error) error {
	s.enter()
	defer s.leave()
	wait := s.limits.patience()
	for {
		c, err := s.connect()
		if err == nil {
			err = call(c)
		}
		if err == nil || outcomeOf(err) == answered {
			return classify(op, name, err, sink.Permanent)
		}
		if !wait.wait() {
			return classify(op, name, err, sink.Retryable)
		}
	}
}

// change makes a call that changes something. Where it isn't known whether it
// did, done looks, and the call is repeated while the change isn't there.
func (s *Sink) change(op, name string, call func(*hdfs.Client) error, done func(*hdfs.Client) (bool, error)) error {
	s.enter()
	defer s.leave()
	wait := s.limits.patience()
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
			if did, look := done(c); look == nil && did {
				return nil
			}
		}
		if outcome == answered {
			return classify(op, name, err, sink.Permanent)
		}
		if !wait.wait() {
			if lost {
				return classify(op, name, err, sink.Ambiguous)
			}
			return classify(op, name, err, sink.Retryable)
		}
	}
}
