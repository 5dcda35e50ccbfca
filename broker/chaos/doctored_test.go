//go:build linux

package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// sound is a history with nothing wrong in it: three producers, two readers, a
// group, a failover between offsets 2 and 3.
func sound() *history {
	h := newHistory()
	p := place{"events", 0}
	keyed := place{"state", 0}
	h.Keyed["state"] = true
	v := func(producer, key string, seq int64) value { return value{producer, key, seq, "t"} }
	log := []value{v("a", "k", 1), v("b", "k", 1), v("a", "k", 2), v("a", "k", 3), v("probe", "0", 7)}
	for i, val := range log {
		epoch, node := int32(4), int32(1)
		if i > 2 {
			epoch, node = 5, 2
		}
		h.Log[p] = append(h.Log[p], found{val, int64(i), epoch})
		from := time.Duration(i) * time.Second
		h.send(sent{place: p, value: val, Verdict: acked, Offset: int64(i), Node: node, From: from, To: from + time.Second/2})
		for _, reader := range []string{"r1", "r2", groupReader} {
			h.see(seen{reader, p, found{val, int64(i), epoch}})
		}
		h.commit(commit{Group: "g", place: p, Offset: int64(i + 1), From: from, To: from + time.Second/4})
	}
	h.send(sent{place: p, value: v("probe", "0", 8), Verdict: refused, Err: "NOT_LEADER_OR_FOLLOWER"})
	h.send(sent{place: p, value: v("probe", "0", 9), Verdict: unknown})
	h.lead(leads{p, 4, 1, "node 1"})
	h.lead(leads{p, 5, 2, "node 3"})
	h.Final = []commit{{Group: "g", place: p, Offset: 5, From: time.Minute, To: time.Minute, Fetch: true}}
	h.send(sent{place: keyed, value: v("c", "k", 1), Verdict: acked, Offset: 0, Node: -1})
	h.send(sent{place: keyed, value: v("c", "k", 2), Verdict: acked, Offset: 1, Node: -1})
	h.Log[keyed] = []found{{v("c", "k", 2), 1, 0}}
	return h
}

// Each check is silent about a sound history and speaks up about one that was
// doctored in the one way it is for.
func TestChecksSeeWhatIsWrong(t *testing.T) {
	if got := check(sound()); len(got) != 0 {
		t.Fatalf("of a sound history: %v", got)
	}
	p, keyed := place{"events", 0}, place{"state", 0}
	for _, c := range []struct {
		name   string
		doctor func(h *history)
		want   string // the check that has to speak
	}{
		{"an acknowledged record is gone", func(h *history) { h.Log[p] = slices.Delete(h.Log[p], 1, 2) }, "acknowledged lost"},
		{"the last acknowledged record is gone", func(h *history) { h.Log[p] = h.Log[p][:4] }, "acknowledged lost"},
		{"a record is there twice", func(h *history) {
			h.Log[p] = append(h.Log[p], found{h.Log[p][0].value, 5, 5})
		}, "doubled"},
		{"two records of a key changed places", func(h *history) {
			l := h.Log[p]
			l[0].value, l[2].value = l[2].value, l[0].value
		}, "reordered"},
		{"a refused record is in the log", func(h *history) {
			h.Log[p] = append(h.Log[p], found{value{"probe", "0", 8, "t"}, 5, 5})
		}, "refused but there"},
		{"a refused record was read", func(h *history) {
			h.see(seen{groupReader, p, found{value{"probe", "0", 8, "t"}, 9, 5}})
		}, "refused but there"},
		{"a record nobody sent", func(h *history) {
			h.Log[p] = append(h.Log[p], found{value{"z", "0", 1, "t"}, 5, 5})
		}, "never sent"},
		{"a record in another partition", func(h *history) {
			h.Log[place{"events", 1}] = []found{{value{"probe", "0", 9, "t"}, 0, 0}}
		}, "never sent"},
		{"an acknowledgement with another offset", func(h *history) { h.Sent[0].Offset = 1 }, "offset inconsistent"},
		{"a reader was given what is gone", func(h *history) {
			h.see(seen{groupReader, p, found{value{"a", "k", 3, "t"}, 2, 4}})
		}, "offset inconsistent"},
		{"a reader was given another epoch's", func(h *history) {
			h.see(seen{groupReader, p, found{h.Log[p][2].value, 2, 3}})
		}, "offset inconsistent"},
		{"an offset twice in the log", func(h *history) { h.Log[p][1].Offset = 0 }, "offset inconsistent"},
		{"a reader went back", func(h *history) {
			h.see(seen{"r1", p, h.Log[p][3]})
		}, "reader skipped or went back"},
		{"a reader skipped one", func(h *history) {
			h.Seen = slices.DeleteFunc(h.Seen, func(s seen) bool { return s.Reader == "r2" && s.Offset == 2 })
		}, "reader skipped or went back"},
		{"two nodes lead by metadata", func(h *history) { h.lead(leads{p, 5, 3, "node 1"}) }, "two leaders in an epoch"},
		{"two nodes acknowledge in an epoch", func(h *history) { h.Sent[1].Node = 3 }, "two leaders in an epoch"},
		{"a commit below an earlier one", func(h *history) {
			h.commit(commit{Group: "g", place: p, Offset: 4, From: time.Hour, To: time.Hour})
		}, "group offset went back"},
		{"a fetch below an earlier commit", func(h *history) { h.Final[0].Offset = 4 }, "group offset went back"},
		{"no offset at all at the end", func(h *history) { h.Final[0].Offset = -1 }, "group offset went back"},
		{"a compacted key is gone", func(h *history) { h.Log[keyed] = nil }, "compacted key lost"},
		{"a compacted key is an old one", func(h *history) { h.Log[keyed][0].value.Seq = 1 }, "compacted key lost"},
		{"a reader was told of data loss", func(h *history) { h.complain("data loss") }, "answered what must not be"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			h := sound()
			c.doctor(h)
			got := check(h)
			if !slices.ContainsFunc(got, func(v violation) bool { return v.Check == c.want }) {
				t.Errorf("%q was not seen: %v", c.want, got)
			}
		})
	}
}

// Commits that overlap in time may be acknowledged in any order.
func TestCommitsAtOnceAreInNoOrder(t *testing.T) {
	h := sound()
	h.Commits = append(h.Commits,
		commit{Group: "h", place: place{"events", 0}, Offset: 9, From: 1 * time.Second, To: 3 * time.Second},
		commit{Group: "h", place: place{"events", 0}, Offset: 8, From: 2 * time.Second, To: 4 * time.Second})
	if got := check(h); len(got) != 0 {
		t.Error(got)
	}
}

// A probe without an answer may arrive after the next one; one that was
// acknowledged before the next was sent may not.
func TestProbesMayBeLate(t *testing.T) {
	h := sound()
	p := place{"events", 0}
	late := value{"probe", "0", 6, "t"}
	h.Log[p] = append(h.Log[p], found{late, 5, 5})
	h.send(sent{place: p, value: late, Verdict: unknown, Node: 2})
	if got := check(h); len(got) != 0 {
		t.Error(got)
	}
	h.Sent[len(h.Sent)-1].Verdict = acked
	h.Sent[len(h.Sent)-1].Offset = 5
	if got := check(h); len(got) != 1 || got[0].Check != "reordered" {
		t.Error(got)
	}
}

// Of many violations a few are told, and how many there were.
func TestViolationsAreCounted(t *testing.T) {
	v := &violations{check: "c"}
	for range mostViolations + 3 {
		v.add("x")
	}
	if l := v.list(); len(l) != mostViolations+1 || l[mostViolations].What != "and 3 more" {
		t.Error(l)
	}
}
