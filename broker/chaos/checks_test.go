//go:build linux

package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// violation is one thing that must not be.
type violation struct {
	Check string `json:"check"`
	What  string `json:"what"`
}

// mostViolations is how many of each check are told.
const mostViolations = 5

// violations gathers those of one check.
type violations struct {
	check string
	all   []violation
	count int
}

func (v *violations) add(format string, args ...any) {
	if v.count++; v.count <= mostViolations {
		v.all = append(v.all, violation{v.check, fmt.Sprintf(format, args...)})
	}
}

// list is what was gathered, with the number of those left out.
func (v *violations) list() []violation {
	if more := v.count - mostViolations; more > 0 {
		return append(v.all, violation{v.check, fmt.Sprintf("and %d more", more)})
	}
	return v.all
}

// checks are all that look at a history alone, by name.
var checks = []struct {
	name string
	run  func(*history, *violations)
}{
	{"acknowledged lost", checkLost},
	{"doubled", checkDoubled},
	{"reordered", checkReordered},
	{"refused but there", checkRefused},
	{"never sent", checkNeverSent},
	{"offset inconsistent", checkOffsets},
	{"reader skipped or went back", checkReaders},
	{"two leaders in an epoch", checkLeaders},
	{"group offset went back", checkCommits},
	{"compacted key lost", checkKeyed},
	{"answered what must not be", checkComplaints},
}

// check runs all of them.
func check(h *history) []violation {
	var all []violation
	for _, c := range checks {
		v := &violations{check: c.name}
		c.run(h, v)
		all = append(all, v.list()...)
	}
	return all
}

// id is what a record is known by.
type id struct {
	topic    string
	producer string
	key      string
	seq      int64
}

func (v value) id(topic string) id { return id{topic, v.Producer, v.Key, v.Seq} }

// inLog finds every record of topics that aren't compacted.
func inLog(h *history) map[id][]int64 {
	there := map[id][]int64{}
	for p, log := range h.Log {
		if h.Keyed[p.Topic] {
			continue
		}
		for _, f := range log {
			there[f.id(p.Topic)] = append(there[f.id(p.Topic)], f.Offset)
		}
	}
	return there
}

// checkLost wants every acknowledged record in the log.
func checkLost(h *history, v *violations) {
	there := inLog(h)
	for _, s := range h.Sent {
		if s.Verdict == acked && !h.Keyed[s.Topic] && len(there[s.id(s.Topic)]) == 0 {
			v.add("%s@%d %s/%s/%d, acknowledged by node %d at %s", s.place, s.Offset, s.Producer, s.Key, s.Seq, s.Node, s.To)
		}
	}
}

// checkDoubled wants no record twice: producers are idempotent or never try
// again.
func checkDoubled(h *history, v *violations) {
	for i, at := range inLog(h) {
		if len(at) > 1 {
			v.add("%s %s/%s/%d at offsets %v", i.topic, i.producer, i.key, i.seq, at)
		}
	}
}

// checkReordered wants the records of a key as their producer sent them. A key
// is of one producer and one partition. A probe that gave up waiting for its
// answer hangs up and sends the next record over another connection: what went
// unanswered may arrive at any time after.
func checkReordered(h *history, v *violations) {
	adrift := map[id]bool{}
	for _, s := range h.Sent {
		if s.Producer == "probe" && s.Verdict == unknown {
			adrift[s.id(s.Topic)] = true
		}
	}
	for p, log := range h.Log {
		last := map[[2]string]found{}
		for _, f := range log {
			if adrift[f.id(p.Topic)] {
				continue
			}
			k := [2]string{f.Producer, f.Key}
			if before, ok := last[k]; ok && before.Seq > f.Seq {
				v.add("%s %s/%s: %d at offset %d is followed by %d at %d", p, f.Producer, f.Key, before.Seq, before.Offset, f.Seq, f.Offset)
			}
			last[k] = f
		}
	}
}

// checkRefused wants nothing that was definitely refused, neither in the log nor
// before a reader's eyes.
func checkRefused(h *history, v *violations) {
	no := map[id]sent{}
	for _, s := range h.Sent {
		if s.Verdict == refused {
			no[s.id(s.Topic)] = s
		}
	}
	for p, log := range h.Log {
		for _, f := range log {
			if s, ok := no[f.id(p.Topic)]; ok {
				v.add("%s@%d %s/%s/%d, refused with %s", p, f.Offset, f.Producer, f.Key, f.Seq, s.Err)
			}
		}
	}
	for _, r := range h.Seen {
		if s, ok := no[r.id(r.Topic)]; ok {
			v.add("%s@%d %s/%s/%d read by %s, refused with %s", r.place, r.Offset, r.Producer, r.Key, r.Seq, r.Reader, s.Err)
		}
	}
}

// checkNeverSent wants only records that somebody sent, where they were sent to.
func checkNeverSent(h *history, v *violations) {
	type sentTo struct {
		place
		id
	}
	by := map[sentTo]bool{}
	for _, s := range h.Sent {
		by[sentTo{s.place, s.id(s.Topic)}] = true
	}
	for p, log := range h.Log {
		for _, f := range log {
			i := f.id(p.Topic)
			if !by[sentTo{p, i}] && !by[sentTo{place{p.Topic, anyPartition}, i}] {
				v.add("%s@%d %s/%s/%d", p, f.Offset, f.Producer, f.Key, f.Seq)
			}
		}
	}
}

// checkOffsets wants one record at an offset, whoever names it: the
// acknowledgement, each reader, the log at the end. What a reader was given was
// committed, so it has to stay.
func checkOffsets(h *history, v *violations) {
	type at struct {
		place
		offset int64
	}
	log := map[at]found{}
	for p, records := range h.Log {
		for i, f := range records {
			if i > 0 && f.Offset <= records[i-1].Offset {
				v.add("%s: offset %d is followed by %d", p, records[i-1].Offset, f.Offset)
			}
			log[at{p, f.Offset}] = f
		}
	}
	for _, s := range h.Sent {
		if s.Verdict != acked || s.Offset < h.Start[s.place] || h.Keyed[s.Topic] {
			continue
		}
		if f, ok := log[at{s.place, s.Offset}]; !ok || f.value.id("") != s.value.id("") {
			v.add("%s@%d was acknowledged as %s/%s/%d and holds %s/%s/%d", s.place, s.Offset, s.Producer, s.Key, s.Seq, f.Producer, f.Key, f.Seq)
		}
	}
	for _, r := range h.Seen {
		if r.Offset < h.Start[r.place] || h.Keyed[r.Topic] {
			continue
		}
		if f, ok := log[at{r.place, r.Offset}]; !ok || f.value != r.value || f.Epoch != r.Epoch && r.Epoch != anyEpoch {
			v.add("%s@%d was read by %s as %s/%s/%d of epoch %d and holds %s/%s/%d of epoch %d",
				r.place, r.Offset, r.Reader, r.Producer, r.Key, r.Seq, r.Epoch, f.Producer, f.Key, f.Seq, f.Epoch)
		}
	}
}

// checkReaders wants each raw reader to get the records of a partition upwards,
// with none left out that the log has.
func checkReaders(h *history, v *violations) {
	type of struct {
		reader string
		place
	}
	got := map[of][]int64{}
	for _, r := range h.Seen {
		got[of{r.Reader, r.place}] = append(got[of{r.Reader, r.place}], r.Offset)
	}
	for o, offsets := range got {
		if h.Keyed[o.Topic] || o.reader == groupReader {
			continue // a group reads again what it hadn't committed
		}
		log := h.Log[o.place]
		i, _ := slices.BinarySearchFunc(log, offsets[0], func(f found, at int64) int { return cmp.Compare(f.Offset, at) })
		for n, offset := range offsets {
			if n > 0 && offset <= offsets[n-1] {
				v.add("%s: %s read %d after %d", o.place, o.reader, offset, offsets[n-1])
				break
			}
			if i+n < len(log) && log[i+n].Offset != offset {
				v.add("%s: %s read %d where the log goes on with %d", o.place, o.reader, offset, log[i+n].Offset)
				break
			}
		}
	}
}

// checkLeaders wants one leader in an epoch: by what nodes say, and by who
// acknowledged what the log has in that epoch.
func checkLeaders(h *history, v *violations) {
	type term struct {
		place
		epoch int32
	}
	who := map[term]leads{}
	note := func(l leads) {
		t := term{l.place, l.Epoch}
		if have, ok := who[t]; ok && have.Node != l.Node {
			v.add("%s epoch %d: node %d (%s) and node %d (%s)", l.place, l.Epoch, have.Node, have.Says, l.Node, l.Says)
			return
		}
		who[t] = l
	}
	for l := range h.Leaders {
		note(l)
	}
	for _, s := range h.Sent {
		if s.Verdict != acked || s.Node < 0 {
			continue
		}
		log := h.Log[s.place]
		i, ok := slices.BinarySearchFunc(log, s.Offset, func(f found, at int64) int { return cmp.Compare(f.Offset, at) })
		if ok && log[i].value.id("") == s.value.id("") {
			note(leads{s.place, log[i].Epoch, s.Node, fmt.Sprintf("acknowledged offset %d", s.Offset)})
		}
	}
}

// checkCommits wants a group's offsets to go up: what was committed or fetched
// before a commit or fetch began is not above what that one says.
func checkCommits(h *history, v *violations) {
	type of struct {
		group string
		place
	}
	by := map[of][]commit{}
	for _, c := range slices.Concat(h.Commits, h.Final) {
		by[of{c.Group, c.place}] = append(by[of{c.Group, c.place}], c)
	}
	for o, all := range by {
		ended := slices.SortedFunc(slices.Values(all), func(a, b commit) int { return cmp.Compare(a.To, b.To) })
		began := slices.SortedFunc(slices.Values(all), func(a, b commit) int { return cmp.Compare(a.From, b.From) })
		high, at, i := int64(-1), time.Duration(0), 0
		for _, c := range began {
			for ; i < len(ended) && ended[i].To < c.From; i++ {
				if ended[i].Offset > high {
					high, at = ended[i].Offset, ended[i].To
				}
			}
			if c.Offset < high {
				how := "committed"
				if c.Fetch {
					how = "fetched"
				}
				v.add("%s %s: %d stood at %s, %d was %s at %s", o.group, o.place, high, at, c.Offset, how, c.From)
			}
		}
	}
}

// checkKeyed wants of every key of a compacted topic the last acknowledged
// record, or a later one.
func checkKeyed(h *history, v *violations) {
	type of struct {
		place
		producer, key string
	}
	last := map[of]int64{}
	for p, log := range h.Log {
		if !h.Keyed[p.Topic] {
			continue
		}
		for _, f := range log {
			o := of{p, f.Producer, f.Key}
			last[o] = max(last[o], f.Seq)
		}
	}
	for _, s := range h.Sent {
		o := of{s.place, s.Producer, s.Key}
		if have, ok := last[o]; s.Verdict == acked && h.Keyed[s.Topic] && (!ok || have < s.Seq) {
			v.add("%s %s/%s: %d was acknowledged, the log ends with %d", s.place, s.Producer, s.Key, s.Seq, have)
		}
	}
}

// checkComplaints wants no answer of those that no client should ever get.
func checkComplaints(h *history, v *violations) {
	for _, what := range h.Refused {
		v.add("%s", what)
	}
}

// groupReader is the name by which members of the group note what they read.
const groupReader = "group"
