package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"sawlog/offsets"
)

// TestScripts runs the stories in testdata/state: what broker 1 is told of its
// replica, then what it answers and how it stands.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/state", func(t *testing.T, path string) {
		s := &script{epochs: map[offsets.BrokerID]int64{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s.t, s.d = t, d
			return s.run() + s.describe()
		})
	})
}

type script struct {
	t        *testing.T
	d        *datadriven.TestData
	state    *State
	history  []EpochEnd // epoch and start
	epochs   map[offsets.BrokerID]int64
	proposed ISRProposal
}

// EndOffsetFor is that of the log whose epochs the script told.
func (s *script) EndOffsetFor(epoch offsets.Epoch) (offsets.Epoch, offsets.Offset) {
	found, end := offsets.NoEpoch, offsets.Offset(-1)
	for i, e := range s.history {
		if e.Epoch > epoch {
			if i == 0 {
				return epoch, e.End
			}
			break
		}
		found, end = e.Epoch, s.state.logEnd
		if i+1 < len(s.history) {
			end = s.history[i+1].End
		}
	}
	return found, end
}

func (s *script) number(key string, otherwise int64) int64 {
	if s.d.HasArg(key) {
		s.d.ScanArgs(s.t, key, &otherwise)
	}
	return otherwise
}

func (s *script) offset(key string, otherwise offsets.Offset) offsets.Offset {
	return offsets.Offset(s.number(key, int64(otherwise)))
}

func (s *script) epoch(key string, otherwise offsets.Epoch) offsets.Epoch {
	return offsets.Epoch(s.number(key, int64(otherwise)))
}

func (s *script) brokers(key string) (ids []offsets.BrokerID) {
	for _, a := range s.d.CmdArgs {
		for _, v := range a.Vals {
			if n, err := strconv.Atoi(v); err == nil && a.Key == key {
				ids = append(ids, offsets.BrokerID(n))
			}
		}
	}
	return ids
}

func (s *script) first() string { return s.d.CmdArgs[0].Key }

func (s *script) run() string {
	switch s.d.Cmd {
	case "new":
		s.state = NewState(1, s.offset("start", 0), s.offset("end", 0))
	case "history":
		s.history = nil
		for _, a := range s.d.CmdArgs {
			e, _ := strconv.Atoi(strings.TrimPrefix(a.Key, "e"))
			o, _ := strconv.Atoi(a.Vals[0])
			s.history = append(s.history, EpochEnd{offsets.Epoch(e), offsets.Offset(o)})
		}
	case "assign":
		return s.assign()
	case "appended":
		s.state.Appended(s.offset("to", 0), s.offset("unstable", -1))
	case "trimmed":
		s.state.Trimmed(s.offset("to", 0))
	case "restarts": // another broker: its registration is a new one
		id, _ := strconv.Atoi(s.first())
		s.epochs[offsets.BrokerID(id)]++
	case "fetch":
		return s.fetch()
	case "propose":
		return s.propose()
	case "answered":
		s.state.Answered(s.proposed, map[string]Outcome{"granted": Granted, "refused": Refused, "lost": Lost, "overtaken": Overtaken}[s.first()])
	case "committed":
		ok, err := s.state.Committed(s.epoch("epoch", s.state.assigned.Epoch), s.offset("end", 0))
		return fmt.Sprintf("%v %v\n", ok, err)
	case "strand": // the brokers that are silent; none = this one is in touch again
		var silent func(offsets.BrokerID) bool
		if ids := s.brokers("silent"); ids != nil {
			silent = func(id offsets.BrokerID) bool { return slices.Contains(ids, id) }
		}
		return fmt.Sprintf("news: %v\n", s.state.Strand(silent))
	case "nearest":
		near := s.brokers("near")
		id := s.state.Nearest(s.offset("at", 0), func(id offsets.BrokerID) bool { return slices.Contains(near, id) })
		return fmt.Sprintf("nearest %d\n", id)
	default:
		return s.follow()
	}
	return ""
}

func (s *script) follow() string {
	switch s.d.Cmd {
	case "takes":
		return fmt.Sprintf("%v\n", s.state.Takes(s.epoch("epoch", 0), s.offset("at", 0)))
	case "diverging":
		to := s.state.TruncateTo(EpochEnd{s.epoch("epoch", 0), s.offset("end", 0)}, s)
		s.history = slices.DeleteFunc(s.history, func(e EpochEnd) bool { return e.End >= to })
		return fmt.Sprintf("cut to %d, below the high watermark: %v\n", to, s.state.Truncated(to, -1))
	case "out-of-range":
		to, anew := s.state.OutOfRange(s.offset("start", 0), s.offset("end", 0))
		if anew {
			s.state.Restarted(to)
			return fmt.Sprintf("anew at %d\n", to)
		}
		return fmt.Sprintf("cut to %d, below the high watermark: %v\n", to, s.state.Truncated(to, -1))
	case "follow":
		s.state.FollowTo(s.offset("end", s.state.logEnd), -1, s.offset("hw", 0), s.offset("start", 0))
		return ""
	}
	s.t.Fatalf("unknown command %q", s.d.Cmd)
	return ""
}

func (s *script) assign() string {
	a := Assignment{
		Image: uint64(s.number("image", 0)), Leader: offsets.BrokerID(s.number("leader", 1)),
		Epoch: s.epoch("epoch", 1), PartitionEpoch: s.epoch("at", 1),
		Replicas: []offsets.BrokerID{1, 2, 3}, ISR: s.brokers("isr"), MinISR: int(s.number("min", 2)),
		Recovering: s.d.HasArg("recovering"),
	}
	if ids := s.brokers("replicas"); ids != nil {
		a.Replicas = ids
	}
	if !s.state.Assign(a, s.number("now", s.state.now)) {
		return "old\n"
	}
	return ""
}

func (s *script) fetch() string {
	id, _ := strconv.Atoi(s.first())
	f := Fetch{
		Follower: offsets.BrokerID(id), LeaderEpoch: s.epoch("epoch", s.state.assigned.Epoch),
		At: s.offset("at", 0), LastEpoch: s.epoch("last", offsets.NoEpoch), Start: s.offset("start", 0), Now: s.number("now", s.state.now),
	}
	f.BrokerEpoch = s.number("broker-epoch", s.epochs[f.Follower])
	d, err := s.state.Serve(f, s)
	switch {
	case err != nil:
		return fmt.Sprintf("error: %v\n", err)
	case d != nil:
		return fmt.Sprintf("diverging: epoch %d ends at %d\n", d.Epoch, d.End)
	}
	return fmt.Sprintf("served from %d\n", f.At)
}

func (s *script) propose() string {
	out := s.brokers("out")
	usable := func(id offsets.BrokerID) (int64, bool) { return s.epochs[id], !slices.Contains(out, id) }
	p, ok := s.state.Propose(s.number("now", s.state.now), usable, 1000)
	if !ok {
		return "nothing\n"
	}
	s.proposed = p
	var text strings.Builder
	text.WriteString(fmt.Sprintf("asks at %d.%d for", p.LeaderEpoch, p.PartitionEpoch))
	for _, m := range p.ISR {
		text.WriteString(fmt.Sprintf(" %d", m.ID))
	}
	if s.state.assigned.Recovering && !p.Recovering {
		text.WriteString(", recovered")
	}
	return text.String() + "\n"
}

func (s *script) describe() string {
	st := s.state
	if st == nil {
		return ""
	}
	var b strings.Builder
	if st.Leads() {
		fmt.Fprintf(&b, "leads in %d.%d isr %v", st.assigned.Epoch, st.assigned.PartitionEpoch, st.assigned.ISR)
		if len(st.asked) > 0 {
			fmt.Fprintf(&b, " asked %v", st.asked)
		}
		if st.UnderMinISR() {
			b.WriteString(" too few")
		}
		if st.Stranded() {
			b.WriteString(" stranded")
		}
		if !st.Trusted() {
			b.WriteString(" untrusted")
		}
	} else {
		fmt.Fprintf(&b, "follows %d in %d.%d", st.assigned.Leader, st.assigned.Epoch, st.assigned.PartitionEpoch)
	}
	fmt.Fprintf(&b, " log [%d, %d) hw %d", st.logStart, st.logEnd, st.highWatermark)
	if st.lastStable != st.highWatermark {
		fmt.Fprintf(&b, " stable %d", st.lastStable)
	}
	return b.String() + "\n"
}
