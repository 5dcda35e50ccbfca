package broker_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
	"sawlog/broker/wire"
)

// This file holds one test for each of the traps of classic groups, of their
// offsets and of configurations that new brokers fall into: numbers 39 to 44, 49
// and 50 of the list the others are kept by.

// groupBubble is inBubble for a broker with settings.
func groupBubble(t *testing.T, settings map[string]string, test func(t *testing.T, b *broker.Broker, dial func() *wire.Conn)) {
	bubbleOf(t, func(c *broker.Config) { c.Defaults = settings }, test)
}

// member is a client's view of its membership.
type member struct {
	t          *testing.T
	c          *wire.Conn
	group      string
	id         string
	instance   *string
	protocols  []string
	generation int32
}

func newMember(t *testing.T, c *wire.Conn, instance string, protocols ...string) *member {
	m := &member{t: t, c: c, group: "g", protocols: protocols}
	if instance != "" {
		m.instance = &instance
	}
	if len(protocols) == 0 {
		m.protocols = []string{"range"}
	}
	return m
}

// Timeouts of a member.
const (
	memberSession   = 10 * time.Second
	memberRebalance = 30 * time.Second
)

func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Group, r.MemberID, r.InstanceID, r.ProtocolType = m.group, m.id, m.instance, "consumer"
	r.SessionTimeoutMillis = int32(memberSession.Milliseconds())
	r.RebalanceTimeoutMillis = int32(memberRebalance.Milliseconds())
	for _, name := range m.protocols {
		meta := kmsg.NewConsumerMemberMetadata()
		meta.Topics = []string{"t"}
		r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: meta.AppendTo(nil)})
	}
	return r
}

// awaited sends a request that is answered once others have asked; the channel
// yields its answer.
func awaited[R kmsg.Response](m *member, r kmsg.Request) <-chan R {
	done := make(chan R, 1)
	go func() {
		defer close(done)
		got, err := m.c.Exchange(m.t.Context(), r)
		if err != nil {
			m.t.Error(err)
			return
		}
		done <- got.(R)
	}()
	synctest.Wait()
	return done
}

// start sends a join; the channel yields its answer.
func (m *member) start(version int16) <-chan *kmsg.JoinGroupResponse {
	m.t.Helper()
	r := m.joinRequest()
	r.Version = version
	return awaited[*kmsg.JoinGroupResponse](m, r)
}

// took notes what a join answered.
func (m *member) took(done <-chan *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
	m.t.Helper()
	got, ok := <-done
	if !ok {
		m.t.Fatal("no answer to a join")
	}
	if got.ErrorCode == 0 || got.ErrorCode == kerr.MemberIDRequired.Code {
		m.id, m.generation = got.MemberID, got.Generation
	}
	return got
}

// joined goes through a whole join, as clients of version 9 do.
func (m *member) joined() *kmsg.JoinGroupResponse {
	m.t.Helper()
	got := m.took(m.start(9))
	if got.ErrorCode == kerr.MemberIDRequired.Code {
		got = m.took(m.start(9))
	}
	if got.ErrorCode != 0 {
		m.t.Fatalf("join: code %d", got.ErrorCode)
	}
	return got
}

// sync sends a SyncGroup with the assignments of a leader.
func (m *member) sync(assign map[string]string) <-chan *kmsg.SyncGroupResponse {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version, r.Group, r.MemberID, r.Generation, r.InstanceID = 5, m.group, m.id, m.generation, m.instance
	kind := "consumer"
	r.ProtocolType, r.Protocol = &kind, &m.protocols[len(m.protocols)-1]
	for _, id := range slices.Sorted(maps.Keys(assign)) {
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(assign[id])})
	}
	return awaited[*kmsg.SyncGroupResponse](m, r)
}

func (m *member) beat() int16 {
	m.t.Helper()
	r := &kmsg.HeartbeatRequest{Group: m.group, MemberID: m.id, Generation: m.generation, InstanceID: m.instance}
	return askAt[*kmsg.HeartbeatResponse](m.t, m.c, 4, r).ErrorCode
}

func (m *member) commit(version int16, partition int32, metadata string) int16 {
	m.t.Helper()
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Group, r.MemberID, r.Generation, r.InstanceID = m.group, m.id, m.generation, m.instance
	r.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: partition, Offset: 7, LeaderEpoch: -1, Metadata: &metadata}}}}
	return askAt[*kmsg.OffsetCommitResponse](m.t, m.c, version, r).Topics[0].Partitions[0].ErrorCode
}

func (m *member) leave(who ...kmsg.LeaveGroupRequestMember) []int16 {
	m.t.Helper()
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Group, r.Members = m.group, who
	var codes []int16
	for _, got := range askAt[*kmsg.LeaveGroupResponse](m.t, m.c, 5, r).Members {
		codes = append(codes, got.ErrorCode)
	}
	return codes
}

func describedGroup(t *testing.T, c *wire.Conn, version int16, group string) kmsg.DescribeGroupsResponseGroup {
	t.Helper()
	return askAt[*kmsg.DescribeGroupsResponse](t, c, version, &kmsg.DescribeGroupsRequest{Groups: []string{group}}).Groups[0]
}

// coordinated makes the offsets topic and waits until groups are served.
func coordinated(t *testing.T, c *wire.Conn) {
	t.Helper()
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	got := askAt[*kmsg.FindCoordinatorResponse](t, c, 4, find).Coordinators[0]
	if got.ErrorCode != 0 || got.NodeID != 1 {
		t.Fatalf("find coordinator: %+v", got)
	}
	synctest.Wait()
}

// TestTrap39MemberIDs: since JoinGroup 4 a new dynamic member is first told its
// id, which is kept for a session; before, and static ones, join at once
// (KIP-394).
func TestTrap39MemberIDs(t *testing.T) {
	groupBubble(t, nil, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		coordinated(t, c)
		for version := int16(4); version <= 9; version++ {
			m := newMember(t, dial(), "")
			got := m.took(m.start(version))
			if got.ErrorCode != kerr.MemberIDRequired.Code || !strings.HasPrefix(got.MemberID, "bubble-") || got.Generation != -1 {
				t.Errorf("version %d: %+v", version, got)
			}
		}
		// Given out and not used, an id runs out with the session.
		late := newMember(t, dial(), "")
		late.took(late.start(9))
		time.Sleep(memberSession + time.Second)
		if got := late.took(late.start(9)); got.ErrorCode != kerr.UnknownMemberID.Code {
			t.Errorf("an old id: code %d", got.ErrorCode)
		}
		for version := range int16(4) {
			m := newMember(t, dial(), "")
			m.group = "old" + string('0'+rune(version))
			if got := m.took(m.start(version)); got.ErrorCode != 0 || got.LeaderID != m.id || len(got.Members) != 1 {
				t.Errorf("version %d: %+v", version, got)
			}
		}
		static := newMember(t, dial(), "i")
		static.group = "static"
		if got := static.took(static.start(9)); got.ErrorCode != 0 || !strings.HasPrefix(got.MemberID, "i-") {
			t.Errorf("static: %+v", got)
		}
		if got := describedGroup(t, c, 6, "static"); got.State != "CompletingRebalance" || deref(got.Members[0].InstanceID) != "i" || got.Members[0].ClientID != "bubble" {
			t.Errorf("described: %+v", got)
		}
	})
}

// TestTrap40StaticMembers: a static member that comes back has a new id and no
// rebalance, the old id is fenced everywhere; it leaves by its instance id or by
// the end of its session (KIP-345, KIP-814).
func TestTrap40StaticMembers(t *testing.T) {
	groupBubble(t, nil, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		coordinated(t, c)
		createTopic(t, c, "t", 1)
		first := newMember(t, dial(), "i")
		first.joined()
		if got := <-first.sync(map[string]string{first.id: "mine"}); got.ErrorCode != 0 || string(got.MemberAssignment) != "mine" {
			t.Fatalf("sync: %+v", got)
		}
		again := newMember(t, dial(), "i")
		got := again.joined()
		if got.MemberID == first.id || got.Generation != first.generation || got.LeaderID != got.MemberID || !got.SkipAssignment || len(got.Members) != 1 {
			t.Errorf("the leader again, at version 9: %+v", got)
		}
		if got := <-again.sync(nil); string(got.MemberAssignment) != "mine" {
			t.Errorf("its assignment: %+v", got)
		}
		fenced := kerr.FencedInstanceID.Code
		if code := first.beat(); code != fenced {
			t.Errorf("the old id beats: code %d", code)
		}
		if code := first.commit(9, 0, ""); code != fenced {
			t.Errorf("the old id commits: code %d", code)
		}
		if got := <-first.sync(nil); got.ErrorCode != fenced {
			t.Errorf("the old id syncs: code %d", got.ErrorCode)
		}
		if got := first.took(first.start(9)); got.ErrorCode != fenced {
			t.Errorf("the old id joins: code %d", got.ErrorCode)
		}
		if code := again.beat(); code != 0 {
			t.Errorf("the new id beats: code %d", code)
		}
		// A client that knows no SkipAssignment isn't told that it leads.
		old := newMember(t, dial(), "i")
		if got := old.took(old.start(5)); got.ErrorCode != 0 || got.LeaderID == got.MemberID || len(got.Members) != 0 {
			t.Errorf("the leader again, at version 5: %+v", got)
		}
		reason := "scaled down"
		other := "j"
		codes := old.leave(
			kmsg.LeaveGroupRequestMember{MemberID: "wrong", InstanceID: old.instance},
			kmsg.LeaveGroupRequestMember{InstanceID: &other},
			kmsg.LeaveGroupRequestMember{MemberID: "nobody"},
			kmsg.LeaveGroupRequestMember{InstanceID: old.instance, Reason: &reason},
		)
		if want := []int16{fenced, kerr.UnknownMemberID.Code, kerr.UnknownMemberID.Code, 0}; !slices.Equal(codes, want) {
			t.Errorf("leave: %v, want %v", codes, want)
		}
		if got := describedGroup(t, c, 6, "g"); got.State != "Empty" {
			t.Errorf("after leaving: %s", got.State)
		}
		// Static or not, a session that runs out is the end.
		silent := newMember(t, dial(), "k")
		silent.joined()
		<-silent.sync(map[string]string{silent.id: ""})
		time.Sleep(memberSession + time.Second)
		if got := describedGroup(t, c, 6, "g"); got.State != "Empty" {
			t.Errorf("after its session: %s with %d members", got.State, len(got.Members))
		}
	})
}

// TestTrap41JoinBarrier: what a rebalance waits for, and for how long.
func TestTrap41JoinBarrier(t *testing.T) {
	groupBubble(t, map[string]string{"group.initial.rebalance.delay.ms": "3000"}, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		coordinated(t, dial())
		// The delay of 3 s is for a group without members only, and a member
		// that comes meanwhile makes for another one.
		began := time.Now()
		a, z := newMember(t, dial(), ""), newMember(t, dial(), "")
		a.took(a.start(9))
		first := a.start(9)
		time.Sleep(2 * time.Second)
		z.took(z.start(9))
		second := z.start(9)
		got := a.took(first)
		z.took(second)
		if took := time.Since(began); took != 6*time.Second || len(got.Members) != 2 || a.generation != 1 || z.generation != 1 {
			t.Fatalf("the first generation came after %v with %d members", took, len(got.Members))
		}
		leader, follower := a, z
		if got.LeaderID == z.id {
			leader, follower = z, a
		}
		// A sync before the leader's waits for it.
		waits := follower.sync(nil)
		if len(waits) != 0 {
			t.Fatal("a sync was answered before there was an assignment")
		}
		<-leader.sync(map[string]string{leader.id: "1", follower.id: "2"})
		if got := <-waits; string(got.MemberAssignment) != "2" {
			t.Errorf("the follower got %q", got.MemberAssignment)
		}
		follower.generation++
		if code := follower.beat(); code != kerr.IllegalGeneration.Code {
			t.Errorf("a wrong generation: code %d", code)
		}
		follower.generation--

		// The leader joins again: the others hear of it by heartbeats, which
		// keep their sessions, and who doesn't come in the rebalance timeout is
		// dropped.
		began = time.Now()
		rejoined := leader.start(9)
		for range int(memberRebalance / (5 * time.Second)) {
			if code := follower.beat(); code != kerr.RebalanceInProgress.Code {
				t.Errorf("a heartbeat in a rebalance: code %d", code)
			}
			time.Sleep(5 * time.Second)
		}
		if got := leader.took(rejoined); len(got.Members) != 1 || time.Since(began) != memberRebalance {
			t.Errorf("after %v: %d members", time.Since(began), len(got.Members))
		}
		if code := follower.beat(); code != kerr.UnknownMemberID.Code {
			t.Errorf("who was dropped beats: code %d", code)
		}
		<-leader.sync(map[string]string{leader.id: "1"})

		// Who leaves while the others are waited for ends the wait.
		follower.id = ""
		follower.took(follower.start(9))
		joins := follower.start(9)
		if len(joins) != 0 {
			t.Fatal("a second member joined before the first was called")
		}
		began = time.Now()
		if codes := leader.leave(kmsg.LeaveGroupRequestMember{MemberID: leader.id}); codes[0] != 0 {
			t.Fatalf("leave: %v", codes)
		}
		if got := follower.took(joins); got.ErrorCode != 0 || got.LeaderID != follower.id || time.Since(began) != 0 {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

// TestTrap42Protocols: the members vote among the protocols all of them know;
// only the leader gets the list of members; a consumer is never answered an
// assignment of no bytes.
func TestTrap42Protocols(t *testing.T) {
	groupBubble(t, map[string]string{"group.initial.rebalance.delay.ms": "1000", "group.max.size": "2"}, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		coordinated(t, dial())
		a := newMember(t, dial(), "a", "sticky", "range", "common")
		z := newMember(t, dial(), "z", "other", "common")
		first, second := a.start(9), z.start(9)
		got, other := a.took(first), z.took(second)
		if deref(got.Protocol) != "common" || deref(other.Protocol) != "common" || deref(got.ProtocolType) != "consumer" {
			t.Errorf("chosen %s and %s", deref(got.Protocol), deref(other.Protocol))
		}
		if (len(got.Members) == 2) == (len(other.Members) == 2) || len(got.Members)+len(other.Members) != 2 {
			t.Errorf("members: %d and %d", len(got.Members), len(other.Members))
		}
		leader, follower := a, z
		if len(other.Members) == 2 {
			leader, follower = z, a
		}
		waits := follower.sync(nil)
		<-leader.sync(map[string]string{leader.id: "all"})
		var empty kmsg.ConsumerMemberAssignment
		if got := <-waits; len(got.MemberAssignment) == 0 || empty.ReadFrom(got.MemberAssignment) != nil || len(empty.Topics) != 0 {
			t.Errorf("an empty assignment: %x", got.MemberAssignment)
		}
		stranger := newMember(t, dial(), "", "nothing in common")
		if got := stranger.took(stranger.start(3)); got.ErrorCode != kerr.GroupMaxSizeReached.Code {
			t.Errorf("a third member: code %d", got.ErrorCode)
		}
		follower.leave(kmsg.LeaveGroupRequestMember{MemberID: follower.id})
		if got := stranger.took(stranger.start(3)); got.ErrorCode != kerr.InconsistentGroupProtocol.Code {
			t.Errorf("no common protocol: code %d", got.ErrorCode)
		}
		stranger.protocols = leader.protocols
		r := stranger.joinRequest()
		r.ProtocolType = "connect"
		if got := askAt[*kmsg.JoinGroupResponse](t, stranger.c, 3, r); got.ErrorCode != kerr.InconsistentGroupProtocol.Code {
			t.Errorf("another protocol type: code %d", got.ErrorCode)
		}
		for millis, code := range map[int32]int16{5999: kerr.InvalidSessionTimeout.Code, 1_800_001: kerr.InvalidSessionTimeout.Code} {
			r := stranger.joinRequest()
			r.SessionTimeoutMillis = millis
			if got := askAt[*kmsg.JoinGroupResponse](t, stranger.c, 3, r); got.ErrorCode != code {
				t.Errorf("a session of %d ms: code %d", millis, got.ErrorCode)
			}
		}
	})
}

// TestTrap43Offsets: who may commit when, and how long it is kept.
func TestTrap43Offsets(t *testing.T) {
	settings := map[string]string{"offsets.retention.minutes": "60", "offsets.retention.check.interval.ms": "60000", "offset.metadata.max.bytes": "10"}
	groupBubble(t, settings, func(t *testing.T, b *broker.Broker, dial func() *wire.Conn) {
		c := dial()
		coordinated(t, c)
		createTopic(t, c, "t", 2)
		committed := func(group string, partition int32) int64 {
			c := dial() // one that waits too long is closed
			r := kmsg.NewPtrOffsetFetchRequest()
			r.Groups = []kmsg.OffsetFetchRequestGroup{{Group: group, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{partition}}}}}
			got := askAt[*kmsg.OffsetFetchResponse](t, c, 9, r).Groups[0]
			if got.ErrorCode != 0 || got.Topics[0].Partitions[0].ErrorCode != 0 {
				t.Errorf("fetch of %s: %+v", group, got)
			}
			return got.Topics[0].Partitions[0].Offset
		}
		outsider := newMember(t, dial(), "")
		outsider.group, outsider.generation = "simple", -1
		if code := outsider.commit(9, 0, "0123456789"); code != 0 {
			t.Errorf("a group without members: code %d", code)
		}
		if code := outsider.commit(9, 0, "0123456789x"); code != kerr.OffsetMetadataTooLarge.Code {
			t.Errorf("long metadata: code %d", code)
		}
		if code := outsider.commit(9, 9, ""); code != kerr.UnknownTopicOrPartition.Code {
			t.Errorf("an unknown partition: code %d", code)
		}
		if committed("simple", 0) != 7 || committed("unknown", 0) != -1 || committed("simple", 1) != -1 {
			t.Error("fetched otherwise than committed")
		}
		m := newMember(t, dial(), "")
		m.joined()
		if code := m.commit(9, 0, ""); code != kerr.RebalanceInProgress.Code {
			t.Errorf("without an assignment: code %d", code)
		}
		<-m.sync(map[string]string{m.id: ""})
		outsider.group = "g"
		if code := outsider.commit(9, 0, ""); code != kerr.UnknownMemberID.Code {
			t.Errorf("an outsider while there are members: code %d", code)
		}
		if code := m.commit(9, 0, ""); code != 0 || committed("g", 0) != 7 {
			t.Errorf("a member: code %d", code)
		}
		m.generation++
		if code := m.commit(9, 0, ""); code != kerr.IllegalGeneration.Code {
			t.Errorf("another generation: code %d", code)
		}
		m.generation--
		// Offsets are kept from the time the group is empty; a simple group's
		// from their commit.
		for range 70 {
			for range 12 {
				time.Sleep(5 * time.Second)
				if code := m.beat(); code != 0 {
					t.Fatalf("heartbeat: code %d", code)
				}
			}
		}
		if at := committed("simple", 0); at != -1 {
			t.Errorf("a simple group's offset of 70 minutes ago: %d", at)
		}
		if at := committed("g", 0); at != 7 {
			t.Errorf("a live group's offset of 70 minutes ago: %d", at)
		}
		m.leave(kmsg.LeaveGroupRequestMember{MemberID: m.id})
		time.Sleep(50 * time.Minute)
		if at := committed("g", 0); at != 7 {
			t.Errorf("the offset of a group empty for 50 minutes: %d", at)
		}
		time.Sleep(15 * time.Minute)
		if at := committed("g", 0); at != -1 {
			t.Errorf("the offset of a group empty for 65 minutes: %d", at)
		}
		// A deleted topic takes its offsets along.
		outsider.group, outsider.c, c = "simple", dial(), dial()
		if code := outsider.commit(9, 0, ""); code != 0 {
			t.Fatalf("commit: code %d", code)
		}
		deleteTopic(t, c, "t")
		synctest.Wait()
		if got := describedGroup(t, c, 6, "simple"); got.ErrorCode != kerr.GroupIDNotFound.Code {
			t.Errorf("a group of a deleted topic: %+v", got)
		}
		createTopic(t, c, "t", 1)
		if at := committed("simple", 0); at != -1 {
			t.Errorf("the offset in the topic before: %d", at)
		}
	})
}

// TestTrap44CoordinatorMoves: over a restart, which is a move to oneself, a
// member is never told that it is unknown, and goes on without a rebalance; the
// offsets topic is made by the first who asks for a coordinator.
func TestTrap44CoordinatorMoves(t *testing.T) {
	dir := t.TempDir()
	start := func() *broker.Broker { return brokertest.Start(t, func(c *broker.Config) { c.Dir = dir }) }
	b := start()
	c := wireClient(t, b)
	m := newMember(t, c, "")
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"g"}
	if got := ask[*kmsg.FindCoordinatorResponse](t, c, find).Coordinators[0]; got.ErrorCode != 0 {
		t.Fatalf("find coordinator: %+v", got)
	}
	// The rest of it is told apart by codes, never by UNKNOWN_MEMBER_ID.
	patient := func(what string, do func() int16) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); ; {
			switch code := do(); {
			case code == 0:
				return
			case code != kerr.CoordinatorLoadInProgress.Code && code != kerr.NotCoordinator.Code || time.Now().After(deadline):
				t.Fatalf("%s: code %d", what, code)
			}
		}
	}
	join := func() int16 {
		r := m.joinRequest()
		got := askAt[*kmsg.JoinGroupResponse](t, m.c, 3, r)
		m.id, m.generation = got.MemberID, got.Generation
		return got.ErrorCode
	}
	patient("join", join)
	kind := "consumer"
	sync := &kmsg.SyncGroupRequest{Version: 5, Group: "g", MemberID: m.id, Generation: m.generation, ProtocolType: &kind, Protocol: &m.protocols[0]}
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: m.id, MemberAssignment: []byte("mine")}}
	if got := askAt[*kmsg.SyncGroupResponse](t, c, 5, sync); got.ErrorCode != 0 {
		t.Fatalf("sync: %+v", got)
	}
	brokertest.Stop(t, b)
	m.c = wireClient(t, start())
	patient("heartbeat after a restart", m.beat)
	// A new epoch of its partition may have it load once more.
	var got kmsg.DescribeGroupsResponseGroup
	patient("describe after a restart", func() int16 {
		got = describedGroup(t, m.c, 6, "g")
		return got.ErrorCode
	})
	if got.State != "Stable" || len(got.Members) != 1 || got.Members[0].MemberID != m.id || string(got.Members[0].MemberAssignment) != "mine" || got.Members[0].ClientHost != "/127.0.0.1" {
		t.Errorf("after a restart: %+v", got)
	}
}

// TestTrap49Configs: tools read every configuration with its source, synonyms
// and type, change lists by APPEND and SUBTRACT, and are told by CreateTopics
// what a topic got.
func TestTrap49Configs(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, func(c *broker.Config) {
		c.Defaults = map[string]string{"num.partitions": "3", "log.retention.ms": "1000", "segment.bytes": "2000000"}
	}))
	made := tryCreate(t, c, "t", -1, "cleanup.policy", "compact")
	if made.ErrorCode != 0 || made.NumPartitions != 3 || made.ReplicationFactor != 1 {
		t.Fatalf("created: %+v", made)
	}
	created := map[string]kmsg.CreateTopicsResponseTopicConfig{}
	for _, config := range made.Configs {
		created[config.Name] = config
	}
	all, _ := described(t, c, kmsg.ConfigResourceTypeTopic, "t")
	if len(all) != len(created) {
		t.Errorf("%d configurations described, %d created", len(all), len(created))
	}
	for _, name := range kafkaTopicConfigs() {
		d, ok := all[name]
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		if deref(d.Value) != deref(created[name].Value) || int8(d.Source) != created[name].Source || d.ConfigType == 0 || deref(d.Documentation) == "" || d.ReadOnly || d.IsSensitive {
			t.Errorf("%s: described %+v, created %+v", name, d, created[name])
		}
	}
	synonyms := func(kind kmsg.ConfigResourceType, resource, name string) (out []string) {
		all, _ := described(t, c, kind, resource)
		for _, s := range all[name].ConfigSynonyms {
			out = append(out, s.Source.String()+" "+s.Name+"="+deref(s.Value))
		}
		return out
	}
	set := func(kind kmsg.ConfigResourceType, resource, name string, op kmsg.IncrementalAlterConfigOp, value string) {
		t.Helper()
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: resource, Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Op: op, Value: &value}}}}
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](t, c, r).Resources[0]; got.ErrorCode != 0 {
			t.Fatalf("set %s: %d %s", name, got.ErrorCode, deref(got.ErrorMessage))
		}
	}
	const (
		topic  = kmsg.ConfigResourceTypeTopic
		node   = kmsg.ConfigResourceTypeBroker
		assign = kmsg.IncrementalAlterConfigOpSet
	)
	set(node, "", "log.retention.ms", assign, "2000")
	set(node, "1", "log.retention.ms", assign, "3000")
	set(topic, "t", "retention.ms", assign, "4000")
	want := []string{
		"DYNAMIC_TOPIC_CONFIG retention.ms=4000", "DYNAMIC_BROKER_CONFIG log.retention.ms=3000",
		"DYNAMIC_DEFAULT_BROKER_CONFIG log.retention.ms=2000", "STATIC_BROKER_CONFIG log.retention.ms=1000",
		"DEFAULT_CONFIG log.retention.hours=168",
	}
	unset := []func(){
		func() { set(topic, "t", "retention.ms", kmsg.IncrementalAlterConfigOpDelete, "") },
		func() { set(node, "1", "log.retention.ms", kmsg.IncrementalAlterConfigOpDelete, "") },
		func() { set(node, "", "log.retention.ms", kmsg.IncrementalAlterConfigOpDelete, "") },
		func() {},
	}
	for i, next := range unset {
		if got := synonyms(topic, "t", "retention.ms"); !slices.Equal(got, want[i:]) {
			t.Errorf("synonyms %q, want %q", got, want[i:])
		}
		all, _ := described(t, c, topic, "t")
		if got := all["retention.ms"]; !strings.HasPrefix(want[i], got.Source.String()+" ") || !strings.HasSuffix(want[i], "="+deref(got.Value)) {
			t.Errorf("in force: %v %s, want %s", got.Source, deref(got.Value), want[i])
		}
		next()
	}
	set(topic, "t", "cleanup.policy", kmsg.IncrementalAlterConfigOpAppend, "delete")
	set(topic, "t", "cleanup.policy", kmsg.IncrementalAlterConfigOpSubtract, "compact")
	if all, _ := described(t, c, topic, "t"); deref(all["cleanup.policy"].Value) != "delete" {
		t.Errorf("cleanup.policy %s", deref(all["cleanup.policy"].Value))
	}
}

// kafkaTopicConfigs are all that a topic has in Apache Kafka 4.4.
func kafkaTopicConfigs() []string {
	return strings.Fields(`cleanup.policy compression.gzip.level compression.lz4.level compression.type compression.zstd.level
		delete.retention.ms errors.deadletterqueue.group.enable file.delete.delay.ms flush.messages flush.ms
		follower.replication.throttled.replicas index.interval.bytes leader.replication.throttled.replicas
		local.retention.bytes local.retention.ms max.compaction.lag.ms max.decompressed.message.bytes max.message.bytes
		message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
		min.compaction.lag.ms min.insync.replicas preallocate remote.copy.lag.bytes remote.copy.lag.ms
		remote.log.copy.disable remote.log.delete.on.disable remote.storage.enable retention.bytes retention.ms
		segment.bytes segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable`)
}

// TestTrap50NoDetourToAController: whatever only the active controller can do
// is done by the broker that is asked, never answered with NOT_CONTROLLER.
func TestTrap50NoDetourToAController(t *testing.T) {
	b := brokertest.Start(t, nil)
	c := wireClient(t, b)
	createTopic(t, c, "t", 1)
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 2}}
	reassign := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	reassign.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "t", Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{1}}}}}
	codes := map[string]int16{
		"CreatePartitions":           ask[*kmsg.CreatePartitionsResponse](t, c, grow).Topics[0].ErrorCode,
		"IncrementalAlterConfigs":    altered(t, c, "t", "retention.ms", kmsg.IncrementalAlterConfigOpSet, "1000"),
		"AlterPartitionReassignment": ask[*kmsg.AlterPartitionAssignmentsResponse](t, c, reassign).Topics[0].Partitions[0].ErrorCode,
		"ElectLeaders":               ask[*kmsg.ElectLeadersResponse](t, c, kmsg.NewPtrElectLeadersRequest()).ErrorCode,
		"ListReassignments":          ask[*kmsg.ListPartitionReassignmentsResponse](t, c, kmsg.NewPtrListPartitionReassignmentsRequest()).ErrorCode,
		"InitProducerId":             ask[*kmsg.InitProducerIDResponse](t, c, kmsg.NewPtrInitProducerIDRequest()).ErrorCode,
		"DescribeQuorum":             ask[*kmsg.DescribeQuorumResponse](t, c, kmsg.NewPtrDescribeQuorumRequest()).ErrorCode,
		"UpdateFeatures":             ask[*kmsg.UpdateFeaturesResponse](t, c, kmsg.NewPtrUpdateFeaturesRequest()).ErrorCode,
	}
	name := "t"
	codes["DeleteTopics"] = tryDelete(t, c, kmsg.DeleteTopicsRequestTopic{Topic: &name}).ErrorCode
	for request, code := range codes {
		if code != 0 {
			t.Errorf("%s: code %d", request, code)
		}
	}
	if got := ask[*kmsg.MetadataResponse](t, c, kmsg.NewPtrMetadataRequest()); got.ControllerID != got.Brokers[0].NodeID {
		t.Errorf("the controller is %d", got.ControllerID)
	}
}
