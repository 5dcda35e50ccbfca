package group

import (
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestScripts reads the scripts of testdata/state aloud: each line is an event,
// the lines under it are all that came of it.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/state/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			s := &script{t: t, tickets: map[Ticket]string{}}
			datadriven.RunTest(t, file, s.step)
		})
	}
}

// script is a group under test and the names given to what waits in it.
type script struct {
	t       *testing.T
	g       *Group
	rules   Rules
	now     int64
	ticket  Ticket
	tickets map[Ticket]string
	written map[uint64]Snapshot
}

func (s *script) step(t *testing.T, d *datadriven.TestData) string {
	arg := func(key, otherwise string) string {
		for _, a := range d.CmdArgs {
			if a.Key == key && len(a.Vals) > 0 {
				return strings.Join(a.Vals, ",")
			}
		}
		return otherwise
	}
	number := func(key string, otherwise int) int {
		n, err := strconv.Atoi(arg(key, strconv.Itoa(otherwise)))
		if err != nil {
			d.Fatalf(t, "%s: %v", key, err)
		}
		return n
	}
	ms := func(key, otherwise string) int64 {
		v, err := time.ParseDuration(arg(key, otherwise))
		if err != nil {
			d.Fatalf(t, "%s: %v", key, err)
		}
		return v.Milliseconds()
	}
	out := &strings.Builder{}
	switch d.Cmd {
	case "new":
		s.now = 1_000_000
		s.rules = Rules{MinSession: 6000, MaxSession: 1_800_000, InitialDelay: ms("delay", "3s"), NewMemberTimeout: 300_000, MaxSize: number("max", 1000)}
		s.g = NewGroup("g", s.rules, s.now)
		s.ticket, s.tickets, s.written = 0, map[Ticket]string{}, map[uint64]Snapshot{}
		return ""
	case "wait":
		s.now += ms("for", "1s")
	case "join":
		version := number("v", 9)
		a := JoinAsk{
			Ticket: s.park("join"), Member: arg("member", ""), Instance: arg("instance", ""), NewID: arg("id", "?"),
			ClientID: "client", ClientHost: "/host", Session: ms("session", "10s"), Rebalance: ms("rebalance", "60s"),
			ProtocolType: arg("type", "consumer"), NeedID: version >= 4, Skip: version >= 9,
		}
		for p := range strings.SplitSeq(arg("protocols", "range:t"), ",") {
			if name, topics, ok := strings.Cut(p, ":"); ok {
				a.Protocols = append(a.Protocols, Protocol{name, subscription(topics)})
			}
		}
		s.g.Join(s.now, a)
	case "sync":
		a := SyncAsk{
			Ticket: s.park("sync"), Member: arg("member", ""), Instance: arg("instance", ""), Generation: int32(number("gen", int(s.g.generation))),
			ProtocolType: orNil(arg("type", "")), Protocol: orNil(arg("protocol", "")), Assignment: map[string][]byte{},
		}
		for p := range strings.SplitSeq(arg("assign", ""), ",") {
			if member, what, ok := strings.Cut(p, ":"); ok {
				a.Assignment[member] = []byte(what)
			}
		}
		s.g.Sync(s.now, a)
	case "heartbeat":
		fmt.Fprintln(out, codeName(s.g.Heartbeat(arg("member", ""), arg("instance", ""), int32(number("gen", int(s.g.generation))))))
	case "leave":
		var asks []LeaveAsk
		for m := range strings.SplitSeq(arg("member", ""), ",") {
			asks = append(asks, LeaveAsk{m, arg("instance", "")})
		}
		for i, code := range s.g.Leave(s.now, asks) {
			fmt.Fprintf(out, "%s%s: %s\n", asks[i].Member, asks[i].Instance, codeName(code))
		}
	case "expire":
		key := TimerKey{Member: arg("session", "")}
		if arg("timer", "session") == "join" {
			key.Kind = JoinTimer
		} else if arg("timer", "session") == "sync" {
			key.Kind = SyncTimer
		}
		s.g.Expired(s.now, key)
	case "written":
		s.g.Written(s.now, uint64(number("write", 0)), codeByName(arg("code", "OK")))
	case "commit":
		fmt.Fprintln(out, codeName(s.g.CheckCommit(arg("member", ""), arg("instance", ""), int32(number("gen", int(s.g.generation))))))
	case "delete":
		fmt.Fprintln(out, codeName(s.g.CheckDelete()))
	case "offset-delete":
		fmt.Fprintln(out, codeName(s.g.CheckOffsetDelete()))
	case "subscribed":
		fmt.Fprintln(out, s.g.Subscribed(arg("topic", "t")))
	case "expires":
		committed := s.now - ms("committed", "0s")
		if from, ok := s.g.ExpiresFrom(arg("topic", "t"), committed); ok {
			fmt.Fprintf(out, "counts from %s ago\n", time.Duration(s.now-from)*time.Millisecond)
		} else {
			fmt.Fprintln(out, "never")
		}
	case "kill":
		s.g.Kill(s.now, kerr.NotCoordinator.Code)
	case "restore":
		s.g = Restore("g", s.rules, s.now, s.written[uint64(number("write", 0))])
	case "show":
		s.show(out)
	default:
		d.Fatalf(t, "unknown command %s", d.Cmd)
	}
	s.effects(out)
	if err := s.g.Check(); err != nil {
		d.Fatalf(t, "%v", err)
	}
	if out.Len() == 0 {
		return "(nothing)\n"
	}
	return out.String()
}

func (s *script) park(kind string) Ticket {
	s.ticket++
	s.tickets[s.ticket] = fmt.Sprintf("%s#%d", kind, s.ticket)
	return s.ticket
}

func (s *script) effects(out *strings.Builder) {
	for _, e := range s.g.Take() {
		switch x := e.(type) {
		case StartTimer:
			fmt.Fprintf(out, "start %s %s\n", timerName(x.Key), time.Duration(x.After)*time.Millisecond)
		case StopTimer:
			fmt.Fprintf(out, "stop %s\n", timerName(x.Key))
		case JoinReply:
			fmt.Fprintf(out, "%s → %s", s.answered(x.Ticket), codeName(x.Code))
			if x.Member != "" {
				fmt.Fprintf(out, " member=%s", x.Member)
			}
			if x.Code == 0 {
				fmt.Fprintf(out, " gen=%d leader=%s protocol=%s", x.Generation, x.Leader, x.Protocol)
			}
			if x.Skip {
				fmt.Fprint(out, " skip-assignment")
			}
			for _, m := range x.Members {
				fmt.Fprintf(out, " [%s]", strings.TrimSpace(m.Member+" "+m.Instance))
			}
			fmt.Fprintln(out)
		case SyncReply:
			fmt.Fprintf(out, "%s → %s", s.answered(x.Ticket), codeName(x.Code))
			if string(x.Assignment) == emptyAssignment {
				fmt.Fprint(out, " (no partitions)")
			} else if x.Code == 0 {
				fmt.Fprintf(out, " %q", x.Assignment)
			}
			fmt.Fprintln(out)
		case Write:
			s.written[x.ID] = x.Snapshot
			fmt.Fprintf(out, "write %d: gen=%d protocol=%q leader=%q", x.ID, x.Snapshot.Generation, x.Snapshot.Protocol, x.Snapshot.Leader)
			for _, m := range x.Snapshot.Members {
				fmt.Fprintf(out, " [%s %q]", strings.TrimSpace(m.ID+" "+m.Instance), m.Assignment)
			}
			fmt.Fprintln(out)
		}
	}
}

// answered names a ticket and fails the test when it is answered again.
func (s *script) answered(ticket Ticket) string {
	name, ok := s.tickets[ticket]
	if !ok {
		s.t.Fatalf("ticket %d answered twice, or never given", ticket)
	}
	delete(s.tickets, ticket)
	return name
}

func (s *script) show(out *strings.Builder) {
	g := s.g
	fmt.Fprintf(out, "%s gen=%d protocol=%q leader=%q\n", g.state, g.generation, g.protocol, g.leader)
	for _, m := range g.order {
		fmt.Fprintf(out, "  %s", m.ID)
		if m.Instance != "" {
			fmt.Fprintf(out, " instance=%s", m.Instance)
		}
		if m.join != 0 {
			fmt.Fprintf(out, " waits in %s", s.tickets[m.join])
		}
		if m.sync != 0 {
			fmt.Fprintf(out, " waits in %s", s.tickets[m.sync])
		}
		fmt.Fprintln(out)
	}
	var pending []string
	for id := range g.pending {
		pending = append(pending, id)
	}
	if sort.Strings(pending); len(pending) > 0 {
		fmt.Fprintf(out, "  pending: %s\n", strings.Join(pending, " "))
	}
}

func timerName(k TimerKey) string { return strings.TrimSpace(k.Kind.String() + " " + k.Member) }

func codeName(code int16) string {
	if code == 0 {
		return "OK"
	}
	return kerr.ErrorForCode(code).(*kerr.Error).Message
}

func codeByName(name string) int16 {
	for code := int16(1); code < 130; code++ {
		if k, ok := kerr.ErrorForCode(code).(*kerr.Error); ok && k.Message == name {
			return code
		}
	}
	return 0
}

// subscription is a consumer's metadata for topics joined by "+"; "!" makes
// bytes nobody can read.
func subscription(topics string) []byte {
	if topics == "!" {
		return []byte{0}
	}
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = strings.Split(topics, "+")
	return m.AppendTo(nil)
}
