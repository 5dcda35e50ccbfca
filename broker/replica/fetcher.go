package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"sawlog/broker/log"
	"sawlog/offsets"
)

// fetcher follows one leading broker.
//
// It keeps an incremental fetch session (KIP-227) of the partitions it follows
// there: a request names those whose position changed, an answer those there is
// something to tell of. Usually one request is under way, and parks at the
// leader until there are records. When partitions are to be asked for at once
// (a new epoch, the end of a back-off) a second one goes behind it, and the
// leader answers the first for its sake.
//
// A partition that can't go on leaves the session for a short time: inside of
// it the leader would answer at once, again and again.
type fetcher struct {
	config *FetchersConfig
	leader offsets.BrokerID
	log    *slog.Logger

	mu     sync.Mutex
	news   []Following
	notice chan struct{} // capacity 1: there is something to look at

	// What follows belongs to whoever holds the token in work: the goroutine that
	// hears a leader's answer takes it in and asks on, without waking another.
	work    chan struct{}
	parts   map[partName]*followed
	dirty   []*followed           // to be named in the next request
	resting []*followed           // out of the session until their time comes
	leaving map[partName]struct{} // to be taken out of the session by the next request
	inside  int                   // parts in the session
	session int32
	epoch   int32 // of the session for the next request; 0 = open one
	under   int64 // the registration the session was begun under
	turns   int64 // number of the last request
}

// partName is how partitions are named on the way.
type partName struct {
	topic offsets.TopicID
	index int32
}

// followed is one partition that is fetched.
type followed struct {
	partition *Partition
	name      partName
	asked     Position // as the session has it, when inside
	since     int64    // number of the request that said so
	inside    bool
	dirty     bool
	dropped   bool
	until     time.Time // it rests, when not zero
	complain  time.Time // when its errors are logged again
}

func newFetcher(c *FetchersConfig, leader offsets.BrokerID) *fetcher {
	return &fetcher{
		config: c, leader: leader, log: c.Logger.With("leader", int(leader)),
		notice: make(chan struct{}, 1), work: make(chan struct{}, 1), parts: map[partName]*followed{}, leaving: map[partName]struct{}{},
	}
}

// tell passes news on to run.
func (f *fetcher) tell(news []Following) {
	f.mu.Lock()
	f.news = append(f.news, news...)
	f.mu.Unlock()
	f.notify()
}

// notify has run look at what there is.
func (f *fetcher) notify() {
	select {
	case f.notice <- struct{}{}:
	default:
	}
}

func (f *fetcher) lock()   { f.work <- struct{}{} }
func (f *fetcher) unlock() { <-f.work }

// Times of a fetcher.
const (
	leastRest  = 10 * time.Millisecond // after an error, with jitter
	mostRest   = 50 * time.Millisecond
	roomRest   = time.Second      // after the disk was full
	answerTime = 10 * time.Second // most; half of it at least
	complainIn = 10 * time.Second
)

// rest is how long to wait after an error.
func rest() time.Duration { return leastRest + rand.N(mostRest-leastRest) }

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	var failing time.Time
	for ctx.Err() == nil {
		f.lock()
		f.take()
		idle := len(f.parts) == 0
		f.unlock()
		if idle {
			select {
			case <-f.notice:
			case <-ctx.Done():
			}
			continue
		}
		err := f.connect(ctx)
		if err == nil || ctx.Err() != nil {
			failing = time.Time{}
			continue
		}
		if now := time.Now(); failing.IsZero() || now.Sub(failing) > complainIn {
			failing = now
			f.log.Warn("can't fetch from a leader", "error", err)
		}
		select {
		case <-time.After(rest()):
		case <-ctx.Done():
		}
	}
}

// connect fetches over one connection until it breaks, or nothing is to be
// fetched any more.
func (f *fetcher) connect(ctx context.Context) error {
	nc, err := f.config.Dial(ctx, f.leader)
	if err != nil {
		return err
	}
	c := newLine(nc)
	stop := context.AfterFunc(ctx, c.close)
	f.lock()
	f.reset()
	f.unlock()
	var broken error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		broken = f.listen(c)
	}()
	defer func() {
		stop()
		c.close()
		<-ended
	}()
	for {
		wait, more, err := f.look(c)
		if !more || err != nil {
			return err
		}
		select {
		case <-ended:
			return broken
		case <-f.notice:
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// look does what is due without an answer having come: news, and partitions whose
// rest is over. wait tells when the next one's is; more, whether anything is to be
// fetched.
func (f *fetcher) look(c *line) (wait <-chan time.Time, more bool, err error) {
	f.lock()
	defer f.unlock()
	f.take()
	f.wakeRested()
	err = f.ask(c)
	if d, ok := f.nextRested(); ok {
		wait = time.After(d)
	}
	return wait, len(f.parts) > 0, err
}

// listen takes answers in, and asks on, until the connection breaks. A request
// behind another it leaves to look: the leader may be writing an answer, and takes
// no request before that is read, which is done here.
func (f *fetcher) listen(c *line) error {
	for {
		frame, err := c.next()
		if err != nil {
			return err
		}
		f.lock()
		resting := len(f.resting)
		err = f.answer(c, frame)
		if err == nil && len(c.sent) == 0 && f.due(c) {
			err = f.send(c)
		}
		if f.due(c) || len(f.resting) > resting || len(f.parts) == 0 {
			f.notify()
		}
		f.unlock()
		if err != nil {
			return err
		}
	}
}

// ask sends the requests that are due.
func (f *fetcher) ask(c *line) error {
	for f.due(c) {
		sent := len(c.sent)
		if err := f.send(c); err != nil {
			return err
		}
		if len(c.sent) == sent {
			break // there was nothing to ask for
		}
	}
	return nil
}

// due tells whether a request is to be sent now. A second one goes behind the
// first only inside of a session.
func (f *fetcher) due(c *line) bool {
	switch len(c.sent) {
	case 0:
		return f.inside > 0 || len(f.dirty) > 0
	case 1:
		return f.epoch > 0 && len(f.dirty) > 0
	}
	return false
}

// reset begins a new session: what was told of partitions is told again.
func (f *fetcher) reset() {
	f.epoch, f.inside = 0, 0
	clear(f.leaving)
	for _, p := range f.parts {
		p.inside = false
		if p.until.IsZero() {
			f.mark(p)
		}
	}
}

// choose takes the partitions that the next request names. One that is to leave
// the session by it must wait for the one after.
func (f *fetcher) choose() []*followed {
	var named []*followed
	kept := f.dirty[:0]
	for _, p := range f.dirty {
		if _, waits := f.leaving[p.name]; waits && !p.inside && !p.dropped {
			kept = append(kept, p)
			continue
		}
		p.dirty = false
		if p.dropped || !p.until.IsZero() {
			continue
		}
		at, ok := p.partition.Position()
		if !ok {
			f.drop(p) // Set tells when there is a leader again
			continue
		}
		if !p.inside {
			p.inside = true
			f.inside++
		}
		p.asked, p.since = at, f.turns+1
		named = append(named, p)
	}
	clear(f.dirty[len(kept):])
	f.dirty = kept
	return named
}

// send sends the next request.
func (f *fetcher) send(c *line) error {
	// Under another registration all partitions are named again: the leader
	// counts none in whose last fetch was under the one before.
	if now := f.config.BrokerEpoch(); now != f.under {
		if f.epoch > 0 {
			f.reset()
		}
		f.under = now
	}
	if f.epoch == 0 {
		clear(f.leaving)
	}
	named := f.choose()
	if f.inside == 0 && len(f.leaving) == 0 {
		return nil
	}
	// A session that is left empty is ended by the leader, which says so.
	f.turns++
	r := fetchRequest{
		follower: f.config.Self, brokerEpoch: f.under,
		session: f.session, epoch: f.epoch, named: named, leaving: f.leaving,
	}
	err := c.send(&r, f.turns)
	clear(f.leaving)
	if f.epoch > 0 {
		f.epoch = nextEpoch(f.epoch)
	}
	return err
}

// answer takes an answer in.
func (f *fetcher) answer(c *line, frame []byte) error {
	r := told{frame: frame}
	request, err := c.answered(frame)
	if err != nil {
		return err
	}
	code, session, err := r.head()
	switch {
	case err != nil:
		return err
	case code == codeUnknownSession || code == codeSessionEpoch || code == codeSessionIDs:
		if f.epoch > 0 || request.opening {
			f.reset()
		}
		return nil
	case code != codeNone:
		return fmt.Errorf("the leader refuses to be fetched from: code %d", code)
	}
	if request.opening {
		f.session = session
		if session != 0 {
			f.epoch = 1
		}
	}
	for {
		part, ok, err := r.next()
		if !ok || err != nil {
			if session == 0 {
				f.reset() // it has no room for a session: everything is named each time
			}
			return err
		}
		f.took(&part, request.number)
	}
}

// mark has a partition named in the next request.
func (f *fetcher) mark(p *followed) {
	if !p.dirty {
		p.dirty = true
		f.dirty = append(f.dirty, p)
	}
}

// take takes news in.
func (f *fetcher) take() {
	f.mu.Lock()
	news := f.news
	f.news = nil
	f.mu.Unlock()
	for _, n := range news {
		l := n.Partition.log
		name := partName{l.TopicID(), l.TopicPartition().Partition}
		p := f.parts[name]
		if n.Leader == offsets.NoBroker {
			if p != nil && p.partition == n.Partition {
				f.drop(p)
			}
			continue
		}
		if p == nil || p.partition != n.Partition {
			if p != nil {
				f.drop(p)
			}
			p = &followed{partition: n.Partition, name: name}
			f.parts[name] = p
		}
		p.until = time.Time{}
		f.mark(p)
	}
}

// drop forgets a partition.
func (f *fetcher) drop(p *followed) {
	p.dropped = true
	delete(f.parts, p.name)
	f.leave(p)
}

// leave takes a partition out of the session.
func (f *fetcher) leave(p *followed) {
	if p.inside {
		p.inside = false
		f.inside--
		f.leaving[p.name] = struct{}{}
	}
}

// pause lets a partition rest.
func (f *fetcher) pause(p *followed, d time.Duration) {
	f.leave(p)
	if p.until.IsZero() {
		f.resting = append(f.resting, p)
	}
	p.until = time.Now().Add(d)
}

// wakeRested goes on with the partitions whose rest is over.
func (f *fetcher) wakeRested() {
	now := time.Now()
	kept := f.resting[:0]
	for _, p := range f.resting {
		switch {
		case p.dropped || p.until.IsZero():
		case now.Before(p.until):
			kept = append(kept, p)
		case p.partition.rests() > 0:
			p.until = now.Add(p.partition.rests())
			kept = append(kept, p)
		default:
			p.until = time.Time{}
			f.mark(p)
		}
	}
	clear(f.resting[len(kept):])
	f.resting = kept
}

// nextRested is how long until the first rest is over.
func (f *fetcher) nextRested() (time.Duration, bool) {
	var first time.Time
	for _, p := range f.resting {
		if !p.until.IsZero() && (first.IsZero() || p.until.Before(first)) {
			first = p.until
		}
	}
	return time.Until(first), !first.IsZero()
}

// took takes in what the leader told of one partition.
func (f *fetcher) took(t *toldPart, request int64) {
	p := f.parts[t.name]
	switch {
	case p == nil || !p.inside:
		return // it left the session since
	case p.since > request: // of a position that is no longer asked for
		f.leave(p) // what was told now would not be told again
		f.mark(p)
		return
	}
	a := Answer{Diverging: t.diverging, Start: t.start, End: t.stable, HighWatermark: t.high, Records: t.records}
	switch t.code {
	case codeNone:
	case codeOutOfRange:
		a.OutOfRange = true
	default:
		if !passing(t.code) && time.Now().After(p.complain) {
			p.complain = time.Now().Add(complainIn)
			f.log.Warn("a leader can't serve a partition", "partition", p.partition.log.TopicPartition().String(), "code", t.code)
		}
		f.pause(p, rest())
		return
	}
	lost, err := p.partition.Follow(p.asked, a)
	if lost {
		f.log.Error("records that were committed are cut off: another leader was elected than one in sync",
			"partition", p.partition.log.TopicPartition().String(), "end", int64(p.partition.log.End()))
	}
	f.went(p, err)
	if err != nil || p.dropped || len(t.records) == 0 {
		return
	}
	if slow := p.partition.slowed(); slow != nil {
		slow.moved(len(t.records))
	}
	if wait := p.partition.rests(); wait > 0 {
		f.pause(p, wait)
	}
}

// went goes on after an answer was taken in, or could not be.
func (f *fetcher) went(p *followed, err error) {
	if err != nil && time.Now().After(p.complain) {
		p.complain = time.Now().Add(complainIn)
		f.log.Error("can't follow a leader", "partition", p.partition.log.TopicPartition().String(), "error", err)
	}
	switch {
	case errors.Is(err, log.ErrNoSpace):
		f.pause(p, roomRest)
	case err != nil: // of damage on the way, or at the leader, another try may be better
		f.pause(p, rest())
	default:
		now, ok := p.partition.Position()
		if !ok {
			f.drop(p) // Set tells when there is a leader again
		} else if now != p.asked {
			f.mark(p)
		}
	}
}
