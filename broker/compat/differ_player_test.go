package compat

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/compat/peer"
)

// play runs one scenario.
func (d *differ) play(t *testing.T, s *script) {
	p := &player{differ: d, t: t, script: s}
	for i, server := range d.servers {
		p.sides[i] = &side{
			index: i, name: server.Name, addr: server.Addr, conns: map[string]*peer.Conn{}, symbols: newSymbols(d.start),
			pending: map[string][]kmsg.Request{},
			vars:    map[string]string{"t0": fmt.Sprint(d.start.Add(-time.Hour).Truncate(time.Second).UnixMilli()), "v": "0"},
		}
	}
	defer func() {
		for _, side := range p.sides {
			for _, c := range side.conns {
				_ = c.Close() // what mattered was read
			}
		}
	}()
	for i := range s.steps {
		p.step(&s.steps[i])
	}
	report(t, p.found)
}

// player is a scenario under way.
type player struct {
	*differ
	t      *testing.T
	script *script
	sides  [2]*side
	found  []difference
}

// side is one broker as a scenario sees it.
type side struct {
	name, addr string
	conns      map[string]*peer.Conn
	pending    map[string][]kmsg.Request // sent, not yet answered; by connection
	vars       map[string]string
	symbols    *symbols
	index      int
	next       kmsg.Request
	last       kmsg.Response
}

func (p *player) fatal(st *step, err error) {
	p.t.Helper()
	report(p.t, p.found)
	p.t.Fatalf("line %d: %s %s: %v", st.line, st.verb, st.api, err)
}

func (p *player) step(st *step) {
	p.t.Helper()
	var err error
	switch st.verb {
	case "topic":
		err = p.both(func(s *side) error { return s.makeTopic(st.args[0], st.args[1:]) })
	case "restart":
		err = p.restart()
	case "groups":
		err = p.both(func(s *side) error { return s.coordinated(st.args) })
	case "set":
		for _, s := range p.sides {
			s.vars[st.args[0]] = st.args[1]
		}
	case "save":
		err = p.both(func(s *side) error {
			if s.last == nil {
				return errors.New("there was no answer")
			}
			value, err := pathValue(s.last, st.args[1])
			s.vars[st.args[0]] = value
			return err
		})
	case "later":
		time.Sleep(10 * pause) // another process's clock can't be set
	case "close":
		for _, s := range p.sides {
			if c := s.conns[st.args[0]]; c != nil {
				_ = c.Close() // that is the point
				delete(s.conns, st.args[0])
			}
		}
	case "await":
		p.await(st)
	case "raw":
		p.raw(st)
	default:
		p.requestStep(st)
	}
	if err != nil {
		p.fatal(st, err)
	}
}

// restart stops both brokers and starts them again: what they answer from then
// on is what they had written.
func (p *player) restart() error {
	if !p.script.alone {
		return errors.New("other scenarios run beside this one")
	}
	for i, server := range p.servers {
		server.Restart()
		for _, c := range p.sides[i].conns {
			_ = c.Close() // nobody is there any more
		}
		clear(p.sides[i].conns)
		clear(p.sides[i].pending)
	}
	return nil
}

// both does the same on both sides at once.
func (p *player) both(act func(*side) error) error {
	var errs [2]error
	var group sync.WaitGroup
	for i, s := range p.sides {
		group.Go(func() {
			if err := act(s); err != nil {
				errs[i] = fmt.Errorf("%s: %w", s.name, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs[:]...)
}

// requestStep sends each request of a body at each version.
func (p *player) requestStep(st *step) {
	p.t.Helper()
	key, err := keyOf(st.api)
	if err != nil {
		p.fatal(st, err)
	}
	for n := int(st.min); n <= int(st.max); n++ {
		version := int16(n)
		if !p.serves(p.script.name, key, version) {
			continue
		}
		var requests [2][]kmsg.Request
		for i, s := range p.sides {
			s.vars["v"] = strconv.Itoa(int(version))
			if requests[i], err = s.requests(key, version, st.body); err != nil {
				p.fatal(st, err)
			}
		}
		for i := range requests[0] {
			p.sides[0].next, p.sides[1].next = requests[0][i], requests[1][i]
			st.nth = i + 1
			p.oneRequest(st)
		}
		p.mu.Lock()
		p.reached[pair{key, version}] = true
		p.mu.Unlock()
	}
}

// requests reads a body.
func (s *side) requests(key, version int16, body string) ([]kmsg.Request, error) {
	text, err := expand(body, s.vars)
	if err != nil {
		return nil, err
	}
	var all []kmsg.Request
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var doc any
		if err := d.Decode(&doc); err == io.EOF {
			if len(all) == 0 {
				return nil, errors.New("no request")
			}
			return all, nil
		} else if err != nil {
			return nil, err
		}
		req, err := newRequest(key, version, doc)
		if err != nil {
			return nil, err
		}
		all = append(all, req)
	}
}

// reads change nothing. Kafka applies what it has acknowledged to its own view
// a little later, so a read that differs is asked again, for half a second.
var reads = map[kmsg.Key]bool{
	kmsg.Metadata: true, kmsg.ListOffsets: true, kmsg.OffsetForLeaderEpoch: true, kmsg.OffsetFetch: true, kmsg.DescribeGroups: true,
	kmsg.ListGroups: true, kmsg.DescribeACLs: true, kmsg.DescribeConfigs: true, kmsg.DescribeLogDirs: true, kmsg.DescribeClientQuotas: true,
	kmsg.DescribeUserSCRAMCredentials: true, kmsg.ListPartitionReassignments: true, kmsg.DescribeQuorum: true, kmsg.DescribeCluster: true,
	kmsg.DescribeProducers: true, kmsg.DescribeTopicPartitions: true, kmsg.ListConfigResources: true, kmsg.FindCoordinator: true,
}

const (
	rereads = 10
	pause   = 50 * time.Millisecond
)

// oneRequest sends what both sides have next.
func (p *player) oneRequest(st *step) {
	p.t.Helper()
	if st.verb != "ask" {
		if err := p.both(func(s *side) error { return s.tell(st.conn, s.next) }); err != nil {
			p.fatal(st, err)
		}
		for _, s := range p.sides {
			if st.verb == "send" {
				s.pending[st.conn] = append(s.pending[st.conn], s.next)
			}
		}
		p.requests.Add(1)
		return
	}
	var outcomes [2]outcome
	act := func() {
		err := p.both(func(s *side) error {
			o, err := s.ask(st)
			outcomes[s.index] = o
			return err
		})
		if err != nil {
			p.fatal(st, err)
		}
	}
	act()
	version := p.sides[0].next.GetVersion()
	found := p.compare(st, version, outcomes)
	for i := 0; len(found) > 0 && i < rereads && reads[kmsg.Key(p.sides[0].next.Key())]; i++ {
		time.Sleep(10 * pause) // another process acts
		p.again.Add(1)
		act()
		found = p.compare(st, version, outcomes)
	}
	p.keep(st, version, outcomes, found)
}

// compare holds two outcomes against each other; what is excused is left out.
func (p *player) compare(st *step, version int16, outcomes [2]outcome) []difference {
	var open []difference
	for _, d := range compare(outcomes[0].normal, outcomes[1].normal) {
		d.scenario, d.api, d.line, d.nth, d.version = p.script.name, st.name(), st.line, st.nth, version
		if !p.known.covers(d) {
			open = append(open, d)
		}
	}
	return open
}

// name is what the table of exceptions calls a step's request.
func (st *step) name() string {
	if st.api == "" {
		return st.verb
	}
	return st.api
}

// keep counts an answer and what was found in it.
func (p *player) keep(st *step, version int16, outcomes [2]outcome, found []difference) {
	p.t.Helper()
	all := compare(outcomes[0].normal, outcomes[1].normal)
	p.excused.Add(int64(len(all) - len(found)))
	p.fields.Add(int64(len(outcomes[0].normal)))
	p.requests.Add(1)
	p.found = append(p.found, found...)
	for i, s := range p.sides {
		s.last = outcomes[i].resp
	}
	if p.show {
		var lines strings.Builder
		for _, path := range slices.Sorted(maps.Keys(outcomes[0].normal)) {
			fmt.Fprintf(&lines, "\n\t%s = %s", path, outcomes[0].normal[path])
		}
		p.t.Logf("line %d+%d: %s v%d%s", st.line, st.nth, st.name(), version, lines.String())
	}
}

// await reads the answers to what was sent before.
func (p *player) await(st *step) {
	p.t.Helper()
	for _, conn := range st.args {
		var outcomes [2]outcome
		err := p.both(func(s *side) error {
			sent := s.pending[conn]
			if len(sent) == 0 {
				return fmt.Errorf("nothing was sent on %s", conn)
			}
			s.next, s.pending[conn] = sent[0], sent[1:]
			o, err := s.hear(conn, s.next, -1)
			outcomes[s.index] = o
			return err
		})
		if err != nil {
			p.fatal(st, err)
		}
		version := p.sides[0].next.GetVersion()
		waited := *st
		waited.api = kmsg.NameForKey(p.sides[0].next.Key())
		p.keep(&waited, version, outcomes, p.compare(&waited, version, outcomes))
	}
}

// raw sends bytes and tells what comes of it.
func (p *player) raw(st *step) {
	p.t.Helper()
	var outcomes [2]outcome
	err := p.both(func(s *side) error {
		text, err := expand(st.body, s.vars)
		if err != nil {
			return err
		}
		b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return err
		}
		c, err := s.dial(st.conn)
		if err != nil {
			return err
		}
		if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := c.Write(b); err != nil && !isClosed(err) {
			return err // one that is closed shows when the answer is read
		}
		outcomes[s.index], err = s.hear(st.conn, nil, -1)
		return err
	})
	if err != nil {
		p.fatal(st, err)
	}
	p.keep(st, 0, outcomes, p.compare(st, 0, outcomes))
}
