package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sawlog/broker/vfs"
	"sawlog/loader/sink"
	"sawlog/loader/sink/local"
	"sawlog/offsets"
)

// The model: several processes act on one data set, and between any two calls
// of the file system any of them may be paused, killed, or all of them lose the
// power at once. A scheduler grants the calls one at a time, so a seed is one
// interleaving, and the process that runs is the one granted last.
type model struct {
	t    *testing.T
	rnd  *rand.Rand
	mem  *vfs.Mem
	src  *source
	seed uint64

	mu      sync.Mutex
	waiting []*call
	actors  map[*actor]bool
	current *actor           // whose calls the file system gets; nil = the model's own
	damaged map[string]bool  // final paths someone has removed
	acked   map[int64]string // record number → nonce of commits that were answered
	done    map[string]int   // what actors achieved
	trace   []string
}

// call is a call of the file system that waits to be granted.
type call struct {
	actor *actor
	what  string
	grant chan bool // false = the process died instead
}

// actor is one process.
type actor struct {
	m    *model
	name string
	dead bool // its calls do nothing any more; guarded by m.mu
}

var errKilled = errors.New("killed")

// step waits to be granted one call.
func (a *actor) step(what string) error {
	a.m.mu.Lock()
	if a.dead {
		a.m.mu.Unlock()
		return errKilled
	}
	c := &call{a, what, make(chan bool)}
	a.m.waiting = append(a.m.waiting, c)
	a.m.mu.Unlock()
	if !<-c.grant {
		return errKilled
	}
	return nil
}

// ask is put before every call of the file system.
func (m *model) ask(op vfs.Op, name string) error {
	m.mu.Lock()
	a := m.current
	m.mu.Unlock()
	if a == nil || op == vfs.OpRead {
		return nil
	}
	return a.step(string(op) + " " + name)
}

// power gives the processes a file system.
func (m *model) power(mem *vfs.Mem) {
	m.mem = mem
	mem.Inject(m.ask)
}

// plain is the file store as the model itself reads it.
func (m *model) plain() sink.Sink {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = nil
	return local.New(m.mem, "/root")
}

// config is that of a process: file times and the clock are the model's.
func (m *model) config(s sink.Sink) LedgerConfig {
	c := m.src.config(s)
	c.Now = time.Now
	return c
}

// spawn starts a process that acts once.
func (m *model) spawn(name string, act func(ctx context.Context, l *Ledger) error) {
	a := &actor{m: m, name: name}
	m.mu.Lock()
	m.actors[a], m.current = true, a
	m.mu.Unlock()
	s := local.New(m.mem, "/root")
	go func() {
		l, err := OpenLedger(m.t.Context(), s, "views", "views-hourly", m.config(s))
		if err == nil {
			err = act(m.t.Context(), l)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.actors, a)
		kind, _, _ := strings.Cut(name, " ")
		switch {
		case err == nil:
			m.done[kind]++
		case a.dead:
			m.done["killed"]++
		case ExitCode(err) == ExitConflict:
			m.done["conflict"]++
		case m.excused(err):
			m.done["excused"]++
		default:
			m.t.Errorf("seed %d: %s: %v", m.seed, name, err)
		}
	}()
}

// excused tells of errors that others' acts may cause rightly: nobody can read a
// file that a person removed. What others overtake or sweep away is no excuse:
// whoever made it finds out, makes it again, or says what the conflict is.
func (m *model) excused(err error) bool {
	return errors.Is(err, sink.ErrNotExist) && len(m.damaged) > 0
}

// load resumes an open plan, or plans what comes next of some partitions, of which
// the log may have lost the first offsets.
func (m *model) load(ctx context.Context, l *Ledger, resume, old bool, lost int64, spans []span, run string) error {
	if err := l.Publish(ctx); err != nil {
		return err
	}
	open, err := l.OpenPlans(ctx)
	if err != nil {
		return err
	}
	var p *Plan
	if resume && len(open) > 0 {
		p = open[int(m.seed)%len(open)].Plan
	} else {
		for i := range spans {
			at := l.fold.Partitions[PartitionKey{fakeCluster, fakeTopic, spans[i].partition}]
			if at != nil {
				spans[i].start += int64(at.Next())
				spans[i].end += int64(at.Next())
			}
		}
		p = m.src.plan(l.fold, spans...)
		if lost > 0 {
			withGap(p, func(*PlanInput) int64 { return lost })
		}
		if old {
			p.Writer.Profile = 1 // of an older binary
		}
	}
	return m.commit(ctx, l, p, run)
}

// withGap has offsets at the start of each range of a plan be gone from the log,
// which a person accepted.
func withGap(p *Plan, lost func(in *PlanInput) int64) {
	for i := range p.Inputs {
		in := &p.Inputs[i]
		in.Gap = lost(in)
		for n := range p.Splits {
			if r := &p.Splits[n].Ranges[0]; in.Gap > 0 && r.Partition == in.Partition {
				r.Start += offsets.Offset(in.Gap)
				p.Gaps = "retention was too short"
			}
		}
	}
}

// commit does what a driver does with a plan (run.carryOut): it publishes the
// head, freezes the plan, has made what is missing, commits, and looks what
// others did when any of that fails.
func (m *model) commit(ctx context.Context, l *Ledger, p *Plan, name string) error {
	if err := l.Publish(ctx); err != nil {
		return err
	}
	r := &run{d: &Driver{}, ask: RunAsk{Run: name}, ledger: l, plan: p, planID: PlanID(p)}
	if done, err := l.Accepts(ctx, p); done || err != nil {
		return err
	}
	if err := r.begin(ctx); err != nil {
		return err
	}
	var rec *Record
	var err error
	for range 1 + maxRepairs {
		var incomplete *IncompleteError
		if rec, err = m.src.run(ctx, l, p, name); !errors.As(err, &incomplete) {
			break
		}
	}
	if err != nil {
		rec, err = r.overtaken(ctx, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && rec != nil {
		m.acked[rec.Number] = rec.Nonce
	}
	return err
}

// supersede loads again what a record loaded, in whole splits.
func (m *model) supersede(ctx context.Context, l *Ledger, pick int, run string) error {
	if err := l.Publish(ctx); err != nil {
		return err
	}
	if l.fold.Head < 0 {
		return nil
	}
	rec, _, err := readRecord(l.sink, max(0, l.fold.Head-int64(pick)%3))
	if err != nil {
		return err
	}
	hull, lost := map[PartitionKey]offsets.Range{}, map[int32]int64{}
	for _, in := range rec.Inputs {
		if !in.Empty() {
			hull[in.key()], lost[in.Partition] = in.Range, in.Gap
		}
	}
	if len(hull) == 0 {
		return nil
	}
	retires, err := (&planner{ledger: l, fold: l.fold, cluster: fakeCluster}).again(ctx, hull)
	if err != nil {
		return err
	}
	var spans []span
	for key, r := range hull {
		spans = append(spans, span{key.Partition, int64(r.Start), int64(r.End)})
	}
	slices.SortFunc(spans, func(a, b span) int { return int(a.partition - b.partition) })
	p := m.src.plan(l.fold, spans...)
	p.Kind, p.Retires = Supersede, retires
	withGap(p, func(in *PlanInput) int64 { return lost[in.Partition] })
	return m.commit(ctx, l, p, run)
}

// compact merges the small files of some hours.
func (m *model) compact(ctx context.Context, l *Ledger, pick int, run string) error {
	if err := l.Publish(ctx); err != nil || l.fold.Head < 0 {
		return err
	}
	from := hourZero + int64(pick%3)*3600
	d := &Driver{Sink: l.sink, Now: time.Now}
	p, err := d.PlanRewrite(ctx, RewriteAsk{Hours: &HourSpan{from, from + 2*3600}, TargetBytes: 2000})
	if err != nil || p == nil {
		if ExitCode(err) == ExitNotFound {
			err = nil
		}
		return err
	}
	return m.commit(ctx, l, p, run)
}

// drop takes an hour back, or what a record brought.
func (m *model) drop(ctx context.Context, l *Ledger, pick int, run string) error {
	hour := hourZero + int64(pick%6)*3600
	ask := DropAsk{Hours: &HourSpan{hour, hour + 3600}}
	if pick%4 == 0 && l.fold.Head >= 0 {
		ask = DropAsk{Of: strconv.FormatInt(l.fold.Head, 10)}
	}
	_, _, err := l.Drop(ctx, run, ask, CommitOptions{})
	if ExitCode(err) == ExitNotFound {
		return nil
	}
	return err
}

// amend makes the files of a record under the present writer profile.
func (m *model) amend(ctx context.Context, l *Ledger, pick int, run string) error {
	if l.fold.Head < 0 {
		return nil
	}
	_, err := l.Amend(ctx, strconv.FormatInt(max(0, l.fold.Head-int64(pick)%4), 10), run, CommitOptions{})
	return err
}

// another starts a process that does something at random.
func (m *model) another(n int) {
	run := fmt.Sprintf("run-%d-%d", m.seed, n)
	switch k := m.rnd.IntN(26); {
	case k < 8:
		var spans []span
		for p := range int32(3) {
			if m.rnd.IntN(2) == 0 {
				spans = append(spans, span{p, 0, 5 + m.rnd.Int64N(30)})
			}
		}
		if len(spans) == 0 {
			spans = []span{{0, 0, 10}}
		}
		resume := m.rnd.IntN(2) == 0
		old := m.rnd.IntN(3) == 0
		lost := max(0, m.rnd.Int64N(12)-7) // of at least 5 offsets
		m.spawn("load "+run, func(ctx context.Context, l *Ledger) error { return m.load(ctx, l, resume, old, lost, spans, run) })
	case k < 11:
		m.spawn("publish", func(ctx context.Context, l *Ledger) error { return l.Publish(ctx) })
	case k < 13:
		m.spawn("sweep", func(ctx context.Context, l *Ledger) error { _, err := l.Sweep(ctx, false); return err })
	case k < 16:
		pick := m.rnd.IntN(100)
		if m.rnd.IntN(4) == 0 {
			m.spawn("changed", func(ctx context.Context, l *Ledger) error { return m.rerunChanged(ctx, l, pick, run) })
			break
		}
		m.spawn("rerun", func(ctx context.Context, l *Ledger) error { return m.rerun(ctx, l, pick) })
	case k < 17:
		m.spawn("abandon", func(ctx context.Context, l *Ledger) error {
			open, err := l.OpenPlans(ctx)
			if err != nil || len(open) == 0 {
				return err
			}
			_, err = l.Abandon(ctx, open[0].ID, run, CommitOptions{})
			return err
		})
	case k < 20:
		pick := m.rnd.IntN(100)
		m.spawn("compact "+run, func(ctx context.Context, l *Ledger) error { return m.compact(ctx, l, pick, run) })
	case k < 21:
		pick := m.rnd.IntN(100)
		m.spawn("drop "+run, func(ctx context.Context, l *Ledger) error { return m.drop(ctx, l, pick, run) })
	case k < 22:
		pick := m.rnd.IntN(100)
		m.spawn("amend "+run, func(ctx context.Context, l *Ledger) error { return m.amend(ctx, l, pick, run) })
	default:
		pick := m.rnd.IntN(100)
		m.spawn("supersede "+run, func(ctx context.Context, l *Ledger) error { return m.supersede(ctx, l, pick, run) })
	}
}

func (m *model) rerun(ctx context.Context, l *Ledger, pick int) error {
	if l.fold.Head < 0 {
		return nil
	}
	ref := l.fold.Records[max(0, l.fold.Head-int64(pick)%4)]
	if ref.Files == 0 {
		return nil
	}
	report, err := l.Rerun(ctx, strconv.FormatInt(ref.Number, 10))
	if err == nil && report.Changed > 0 {
		return fmt.Errorf("a rerun came out changed: %+v", report)
	}
	return err
}

// rerunChanged runs a record again when the log holds something else by now: nothing
// of that is put in place (L8).
func (m *model) rerunChanged(ctx context.Context, l *Ledger, pick int, run string) error {
	if l.fold.Head < 0 {
		return nil
	}
	if err := l.Publish(ctx); err != nil {
		return err
	}
	l.c.Remake = (&source{prefix: run + "-", salt: " changed", fields: m.src.fields}).remake(l.sink)
	ref := l.fold.Records[max(0, l.fold.Head-int64(pick)%4)]
	if ref.Files == 0 || ref.Kind == Compact {
		return nil
	}
	report, err := l.Rerun(ctx, strconv.FormatInt(ref.Number, 10))
	switch {
	case ExitCode(err) == ExitMismatch:
		return nil
	case err == nil && report.Retired < int64(len(report.Files)):
		return fmt.Errorf("L8: the log has changed, and a rerun said %+v", report)
	}
	return err
}

// play runs one interleaving of so many processes and calls.
func (m *model) play(processes int) {
	started := 0
	defer m.kill()
	for steps := 0; ; steps++ {
		synctest.Wait() // all processes stand still, and none of them is current
		m.mu.Lock()
		alive, waiting := len(m.actors), len(m.waiting)
		m.mu.Unlock()
		switch {
		case alive < 4 && started < processes:
			m.another(started)
			started++
			continue
		case alive == 0:
			return
		case waiting == 0:
			time.Sleep(time.Second) // they wait between two tries
			continue
		case m.rnd.IntN(1000) == 0:
			m.powerCut()
			continue
		case m.rnd.IntN(500) == 0:
			time.Sleep(retiredGrace / 2) // everybody stood still for days
			continue
		case m.rnd.IntN(300) == 0:
			m.damage()
		}
		if steps%50 == 0 {
			m.check(m.plain(), false)
		}
		m.grant()
	}
}

// grant lets one call through, or kills its process instead.
func (m *model) grant() {
	m.mu.Lock()
	n := m.rnd.IntN(len(m.waiting))
	// Most of the time the same process goes on, so that some get far while
	// others stand still.
	if m.rnd.IntN(40) > 0 {
		n = len(m.waiting) - 1
	}
	c := m.waiting[n]
	m.waiting = append(m.waiting[:n], m.waiting[n+1:]...)
	lives := m.rnd.IntN(400) > 0
	if !lives {
		c.actor.dead = true
	}
	m.current = c.actor
	m.trace = append(m.trace, fmt.Sprintf("%p %s: %s %v", c.actor, c.actor.name, c.what, lives))
	m.mu.Unlock()
	c.grant <- lives
	if !lives {
		m.bury(c.actor)
	}
}

// bury lets the other calls of a dead process go.
func (m *model) bury(a *actor) {
	m.mu.Lock()
	var kept []*call
	var gone []*call
	for _, c := range m.waiting {
		if c.actor == a {
			gone = append(gone, c)
		} else {
			kept = append(kept, c)
		}
	}
	m.waiting = kept
	m.mu.Unlock()
	for _, c := range gone {
		c.grant <- false
	}
}

// kill ends every process.
func (m *model) kill() {
	m.mu.Lock()
	gone := m.waiting
	m.waiting = nil
	for a := range m.actors {
		a.dead = true
		m.current = a // any of the dead
	}
	m.mu.Unlock()
	for _, c := range gone {
		c.grant <- false
	}
	synctest.Wait()
}

// powerCut kills every process and loses what was not synced.
func (m *model) powerCut() {
	m.kill()
	m.trace = append(m.trace, "power cut")
	m.power(m.mem.CrashClone(m.rnd))
	m.check(m.plain(), false)
}

// damage removes one published file that was loaded from the log, as a person
// might.
func (m *model) damage() {
	s := m.plain()
	l, err := OpenLedger(m.t.Context(), s, "views", "views-hourly", m.config(s))
	if err != nil {
		m.t.Fatal(err)
	}
	var names []string
	for name := range data(m.t, s) {
		if v := l.fold.Files[name]; v != nil && v.Hour != nil && l.fold.Records[v.Number].Kind != Compact {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	name := names[m.rnd.IntN(len(names))]
	if err := errors.Join(s.Remove(name), s.Sync(path.Dir(name))); err != nil {
		m.t.Fatal(err)
	}
	m.damaged[name] = true
	m.done["damaged"]++
	m.mu.Lock()
	m.trace = append(m.trace, "damaged "+name)
	m.mu.Unlock()
}

// rest brings the data set to rest: it is whole, marked, swept, and every
// loaded offset is in one file at most.
func (m *model) rest() {
	m.t.Helper()
	s := m.plain()
	l, err := OpenLedger(m.t.Context(), s, "views", "views-hourly", m.config(s))
	if err != nil {
		m.t.Fatalf("seed %d: open at rest: %v", m.seed, err)
	}
	if err := l.Publish(m.t.Context()); err != nil {
		m.t.Fatalf("seed %d: publish at rest: %v", m.seed, err)
	}
	for name := range m.damaged {
		if v := l.fold.Files[name]; v != nil {
			if _, err := l.Rerun(m.t.Context(), strconv.FormatInt(v.Number, 10)); err != nil {
				m.t.Fatalf("seed %d: rerun at rest: %v", m.seed, err)
			}
			delete(m.damaged, name)
		}
	}
	for range 2 { // as it is, and once all that was retired is old
		if _, err := l.Sweep(m.t.Context(), false); err != nil {
			m.t.Fatalf("seed %d: sweep at rest: %v", m.seed, err)
		}
		m.checkSwept(s, l)
		m.check(s, true)
		time.Sleep(retiredGrace + time.Minute)
	}
	if report, err := l.Verify(m.t.Context(), ""); err != nil {
		m.t.Fatalf("seed %d: at rest: %v\n%+v", m.seed, err, report)
	}
	m.checkFeed(l)
	held := map[string]string{}
	for name, v := range l.fold.Files {
		body, err := s.ReadFile(name)
		if err != nil {
			m.t.Fatal(err)
		}
		profile := m.profile(l, v)
		for line := range strings.Lines(string(body)) {
			where, with, row := strings.Cut(strings.TrimSpace(line), " profile ")
			if !row {
				continue
			}
			if with != profile {
				m.t.Fatalf("seed %d: L7: %s is written under profile %s, want %s", m.seed, name, with, profile)
			}
			if other := held[where]; other != "" {
				m.t.Fatalf("seed %d: L1: %s is in %s and in %s", m.seed, where, other, name)
			}
			held[where] = v.Path
		}
	}
	want := m.due(l)
	for where, name := range held {
		if !want[where] {
			m.t.Fatalf("seed %d: L9: %s is in %s: nobody loaded it, it was dropped, or it is gone", m.seed, where, name)
		}
	}
	for where := range want {
		if held[where] == "" {
			m.t.Fatalf("seed %d: L9: offset %s was loaded and is in no file", m.seed, where)
		}
	}
	open, err := l.OpenPlans(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	for name := range tree(m.t, s, StagesDir) {
		needed := false
		for _, ref := range open {
			needed = needed || strings.HasPrefix(name, path.Join(StagesDir, ref.ID)+"/")
		}
		if !needed {
			m.t.Fatalf("seed %d: the sweep left %s", m.seed, name)
		}
	}
}

// profile is the writer profile that a file is of: its plan's, or that of an amend.
func (m *model) profile(l *Ledger, v *Visible) string {
	m.t.Helper()
	p, err := readPlan(l.sink, v.Plan)
	if err != nil {
		m.t.Fatal(err)
	}
	return strconv.Itoa(cmp.Or(v.Profile, p.Writer.Profile))
}

// checkFeed reads the change feed in two goes, as a reader does that remembers a
// number: applied in order, the changes are the files of the data set.
func (m *model) checkFeed(l *Ledger) {
	m.t.Helper()
	have := map[string]string{} // path → sha256
	last := int64(-1)
	for _, stop := range []int64{l.fold.Head / 2, l.fold.Head} {
		err := l.Changes(m.t.Context(), last, func(c *Change) error {
			if c.Number > stop {
				return nil
			}
			if c.Number != last+1 {
				m.t.Fatalf("seed %d: the feed tells record %d after %d", m.seed, c.Number, last)
			}
			last = c.Number
			for _, f := range c.Retired {
				if have[f.Path] != f.SHA256 {
					m.t.Fatalf("seed %d: record %d takes %s back, the feed has %q of it", m.seed, c.Number, f.Path, have[f.Path])
				}
				delete(have, f.Path)
			}
			for _, f := range append(c.Added, c.Amended...) {
				have[f.Path] = f.SHA256
			}
			return nil
		})
		if err != nil {
			m.t.Fatalf("seed %d: %v", m.seed, err)
		}
	}
	for _, v := range l.fold.All() {
		if have[v.Path] != v.SHA256 {
			m.t.Fatalf("seed %d: %s has %q by the feed, %q by the ledger", m.seed, v.Path, have[v.Path], v.SHA256)
		}
		delete(have, v.Path)
	}
	if len(have) > 0 {
		m.t.Fatalf("seed %d: only the feed has %v", m.seed, have)
	}
}

// due are the offsets whose rows, or bad records, a reader is to find: loaded
// and not dropped since.
func (m *model) due(l *Ledger) map[string]bool {
	m.t.Helper()
	want := map[string]bool{}
	f := NewFold()
	for f.Head < l.fold.Head {
		rec, hash, err := readRecord(l.sink, f.Head+1)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, name := range rec.Retires {
			v := f.Files[name]
			if rec.Kind != Drop || v == nil {
				continue
			}
			for _, part := range f.extent(v) {
				for o := int64(part.Start); o < int64(part.End); o++ {
					bad := o%10 == badOffset
					if v.Hour == nil && bad || v.Hour != nil && !bad && *v.Hour == hourZero+o/perHour*3600 {
						delete(want, fmt.Sprintf("%d/%d", part.key.Partition, o))
					}
				}
			}
		}
		for _, in := range rec.Inputs {
			for o := int64(in.Start) + in.Gap; o < int64(in.End); o++ {
				if o%10 != ctrlOffset {
					want[fmt.Sprintf("%d/%d", in.Partition, o)] = true
				}
			}
		}
		if err := f.Apply(rec, hash); err != nil {
			m.t.Fatal(err)
		}
	}
	return want
}

// setting is a number of the environment.
func setting(t *testing.T, name string, usual uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestModel plays interleavings; SAWLOG_TEST_SEEDS sets how many, and
// SAWLOG_TEST_FIRST_SEED where they begin.
func TestModel(t *testing.T) {
	usual := uint64(40)
	if testing.Short() {
		usual = 15
	}
	first, seeds := setting(t, "SAWLOG_TEST_FIRST_SEED", 0), setting(t, "SAWLOG_TEST_SEEDS", usual)
	done := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		synctest.Test(t, func(t *testing.T) {
			m := &model{
				t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 11)),
				src:    &source{prefix: fmt.Sprintf("s%d-", seed)},
				actors: map[*actor]bool{}, acked: map[int64]string{}, damaged: map[string]bool{}, done: done,
			}
			if seed%4 == 2 {
				m.src.fields = []BucketField{{Name: "p"}}
			}
			m.power(vfs.NewMem())
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d:\n%s", seed, strings.Join(m.trace[max(0, len(m.trace)-3000):], "\n"))
				}
			})
			m.play(25)
			m.rest()
		})
		if t.Failed() {
			break
		}
	}
	t.Logf("what happened: %v", done)
	for _, kind := range []string{"load", "supersede", "publish", "sweep", "rerun", "changed", "abandon", "compact", "drop", "amend", "killed", "conflict", "damaged"} {
		if done[kind] == 0 {
			t.Errorf("no %s in %d seeds: the model shows too little", kind, seeds)
		}
	}
}
