package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

func describeRequest(groups ...string) *kmsg.DescribeGroupsRequest {
	q := kmsg.NewPtrDescribeGroupsRequest()
	q.Version = 6
	q.Groups = groups
	return q
}

func deleteRequest(groups ...string) *kmsg.DeleteGroupsRequest {
	q := kmsg.NewPtrDeleteGroupsRequest()
	q.Version = 3
	q.Groups = groups
	return q
}

// wired sends a request through its own encoding, and the answer through its.
func wired[Q kmsg.Request, A kmsg.Response](t *testing.T, q Q, answer func(Q) A, to A) A {
	t.Helper()
	q2 := kmsg.RequestForKey(q.Key()).(Q)
	q2.SetVersion(q.GetVersion())
	if err := q2.ReadFrom(q.AppendTo(nil)); err != nil {
		t.Fatalf("request version %d: %v", q.GetVersion(), err)
	}
	a := answer(q2)
	if a.GetVersion() != q.GetVersion() {
		t.Fatalf("version %d answered with %d", q.GetVersion(), a.GetVersion())
	}
	to.SetVersion(q.GetVersion())
	if err := to.ReadFrom(a.AppendTo(nil)); err != nil {
		t.Fatalf("answer version %d: %v", q.GetVersion(), err)
	}
	return to
}

// TestOffsetVersions: commit and fetch in every version, through the bytes.
func TestOffsetVersions(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for version := int16(2); version <= 10; version++ {
			group := fmt.Sprint("g", version)
			q := commitRequest(outsider(group), "t", 3, int64(version))
			q.Version = version
			q.Topics[0].TopicID = r.topic.topics["t"]
			bad := kmsg.NewOffsetCommitRequestTopicPartition()
			bad.Partition = 77
			big := kmsg.NewOffsetCommitRequestTopicPartition()
			big.Partition, big.Metadata = 4, new(strings.Repeat("x", 4097))
			q.Topics[0].Partitions = append(q.Topics[0].Partitions, bad, big)
			unknown := kmsg.NewOffsetCommitRequestTopic()
			unknown.Topic, unknown.TopicID = "nope", [16]byte{0xff}
			unknown.Partitions = append(unknown.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
			q.Topics = append(q.Topics, unknown)
			a := wired(t, q, func(q *kmsg.OffsetCommitRequest) *kmsg.OffsetCommitResponse { return call(r.OffsetCommit, q) }, kmsg.NewPtrOffsetCommitResponse())
			var codes []string
			for _, topic := range a.Topics {
				for _, p := range topic.Partitions {
					codes = append(codes, fmt.Sprintf("%d=%s", p.Partition, codeName(p.ErrorCode)))
				}
			}
			missing := "UNKNOWN_TOPIC_OR_PARTITION"
			if version >= 10 {
				missing = "UNKNOWN_TOPIC_ID"
			}
			want(t, fmt.Sprint("commit version ", version), strings.Join(codes, " "),
				"3=OK 77=UNKNOWN_TOPIC_OR_PARTITION 4=OFFSET_METADATA_TOO_LARGE 0="+missing)
		}
		for version := int16(1); version <= 10; version++ {
			for _, all := range []bool{false, true} {
				if all && version < 2 {
					continue
				}
				q := fetchRequest(version, "g5", r.topic.topics["t"], all)
				a := wired(t, q, func(q *kmsg.OffsetFetchRequest) *kmsg.OffsetFetchResponse { return call(r.OffsetFetch, q) }, kmsg.NewPtrOffsetFetchResponse())
				want(t, fmt.Sprintf("fetch version %d, all %v", version, all), fetchText(a), fetchWant(version, all))
			}
		}
	})
}

func fetchRequest(version int16, group string, id offsets.TopicID, all bool) *kmsg.OffsetFetchRequest {
	q := kmsg.NewPtrOffsetFetchRequest()
	q.Version, q.RequireStable = version, true
	q.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	if !all {
		q.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "t", Partitions: []int32{3, 5}}}
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", TopicID: id, Partitions: []int32{3, 5}}, {Topic: "nope", TopicID: [16]byte{0xff}, Partitions: []int32{0}}}
	}
	unknown := kmsg.NewOffsetFetchRequestGroup()
	unknown.Group = "nobody"
	q.Groups = []kmsg.OffsetFetchRequestGroup{g, unknown}
	return q
}

func fetchText(a *kmsg.OffsetFetchResponse) string {
	var out []string
	for _, topic := range a.Topics {
		for _, p := range topic.Partitions {
			out = append(out, fmt.Sprintf("%s/%d@%d,%d,%q,%s", topic.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, codeName(p.ErrorCode)))
		}
	}
	for _, g := range a.Groups {
		out = append(out, g.Group+" "+codeName(g.ErrorCode))
		for _, topic := range g.Topics {
			name := topic.Topic
			if a.Version >= 10 {
				name = fmt.Sprintf("%x", topic.TopicID[:1])
			}
			for _, p := range topic.Partitions {
				out = append(out, fmt.Sprintf("%s/%d@%d,%d,%q,%s", name, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, codeName(p.ErrorCode)))
			}
		}
	}
	return strings.Join(out, " ")
}

func fetchWant(version int16, all bool) string {
	// The commit of version 5 had no leader epoch in it.
	switch {
	case all && version < 8:
		return `t/3@5,-1,"note",OK`
	case version < 8:
		return `t/3@5,-1,"note",OK t/5@-1,-1,"",OK`
	case all && version < 10:
		return `g5 OK t/3@5,-1,"note",OK nobody OK`
	case all:
		return `g5 OK 01/3@5,-1,"note",OK nobody OK`
	case version < 10:
		return `g5 OK t/3@5,-1,"note",OK t/5@-1,-1,"",OK nope/0@-1,-1,"",OK nobody OK`
	default:
		return `g5 OK 01/3@5,-1,"note",OK 01/5@-1,-1,"",OK ff/0@-1,-1,"",UNKNOWN_TOPIC_ID nobody OK`
	}
}

// TestEmptyCommit: a commit of nothing is an empty answer.
func TestEmptyCommit(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Version, q.Group, q.Generation = 8, "g", -1
		if a := call(r.OffsetCommit, q); len(a.Topics) != 0 {
			t.Errorf("answered %+v", a)
		}
	})
}

// TestCommitRules: who may commit to what.
func TestCommitRules(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want(t, "by an outsider", r.commit(outsider("simple"), "t", 0, 1), "OK")
		want(t, "to the group without a name", r.commit(outsider(""), "t", 0, 1), "OK")
		want(t, "to a name beyond reason", r.commit(outsider(strings.Repeat("x", maxGroupName+1)), "t", 0, 1), "INVALID_GROUP_ID")
		want(t, "with a generation nobody formed", r.commit(member{"none", "m", 4}, "t", 0, 1), "ILLEGAL_GENERATION")
		q := commitRequest(member{"none", "m", 4}, "t", 0, 1)
		q.Version = 9
		want(t, "the same in version 9", codeName(call(r.OffsetCommit, q).Topics[0].Partitions[0].ErrorCode), "GROUP_ID_NOT_FOUND")
		m := r.stable("g")
		want(t, "by an outsider while there are members", r.commit(outsider("g"), "t", 0, 1), "UNKNOWN_MEMBER_ID")
		want(t, "by the member", r.commit(m, "t", 0, 7), "OK")
		want(t, "of an older generation", r.commit(member{"g", m.id, m.generation - 1}, "t", 0, 1), "ILLEGAL_GENERATION")
		if have := r.committed("g", "t", 0); have != 7 {
			t.Errorf("offset %d", have)
		}
	})
}

// TestEveryVersionOfGroupRequests: join, sync, heartbeat and leave through the
// bytes of every version.
func TestEveryVersionOfGroupRequests(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for version := int16(0); version <= 9; version++ {
			group := fmt.Sprint("g", version)
			join := func(member string) *kmsg.JoinGroupResponse {
				q := joinRequest(group, member, version)
				return wired(t, q, func(q *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse { return call(r.JoinGroup, q) }, kmsg.NewPtrJoinGroupResponse())
			}
			j := join("")
			if version >= 4 {
				want(t, group, codeName(j.ErrorCode), "MEMBER_ID_REQUIRED")
				j = join(j.MemberID)
			}
			if j.ErrorCode != 0 || j.LeaderID != j.MemberID || len(j.Members) != 1 || *j.Protocol != "range" || !strings.HasPrefix(j.MemberID, "client-") {
				t.Fatalf("join version %d: %+v", version, j)
			}
			s := syncRequest(group, j.MemberID, j.Generation, map[string]string{j.MemberID: "x"})
			s.Version = min(version, 5)
			sa := wired(t, s, func(q *kmsg.SyncGroupRequest) *kmsg.SyncGroupResponse { return call(r.SyncGroup, q) }, kmsg.NewPtrSyncGroupResponse())
			want(t, group+" sync", codeName(sa.ErrorCode)+string(sa.MemberAssignment), "OKx")
			h := kmsg.NewPtrHeartbeatRequest()
			h.Version, h.Group, h.MemberID, h.Generation = min(version, 4), group, j.MemberID, j.Generation
			ha := wired(t, h, func(q *kmsg.HeartbeatRequest) *kmsg.HeartbeatResponse { return call(r.Heartbeat, q) }, kmsg.NewPtrHeartbeatResponse())
			want(t, group+" heartbeat", codeName(ha.ErrorCode), "OK")
			l := kmsg.NewPtrLeaveGroupRequest()
			l.Version, l.Group, l.MemberID = min(version, 5), group, j.MemberID
			for _, id := range []string{j.MemberID, "ghost"} {
				o := kmsg.NewLeaveGroupRequestMember()
				o.MemberID = id
				l.Members = append(l.Members, o)
			}
			la := wired(t, l, func(q *kmsg.LeaveGroupRequest) *kmsg.LeaveGroupResponse { return call(r.LeaveGroup, q) }, kmsg.NewPtrLeaveGroupResponse())
			want(t, group+" leave", codeName(la.ErrorCode), "OK")
			if version >= 3 && (len(la.Members) != 2 || la.Members[0].ErrorCode != 0 || la.Members[1].ErrorCode != kerr.UnknownMemberID.Code) {
				t.Errorf("leave version %d: %+v", version, la.Members)
			}
		}
	})
}

func TestNoGroupName(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		want(t, "join", codeName(call(r.JoinGroup, joinRequest("", "", 9)).ErrorCode), "INVALID_GROUP_ID")
		want(t, "sync", codeName(call(r.SyncGroup, syncRequest("", "m", 1, nil)).ErrorCode), "INVALID_GROUP_ID")
		want(t, "heartbeat", r.heartbeat(member{}), "INVALID_GROUP_ID")
		want(t, "leave", r.leave(member{}), "INVALID_GROUP_ID")
	})
}

// TestListAndDescribe: what tools see.
func TestListAndDescribe(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("stable")
		gone := r.stable("empty")
		want(t, "leave", r.leave(gone), "OK")
		want(t, "commit", r.commit(outsider("simple"), "t", 0, 1), "OK")
		list := func(states, types []string) string {
			q := kmsg.NewPtrListGroupsRequest()
			q.Version, q.StatesFilter, q.TypesFilter = 5, states, types
			a := wired(t, q, func(q *kmsg.ListGroupsRequest) *kmsg.ListGroupsResponse { return call(r.ListGroups, q) }, kmsg.NewPtrListGroupsResponse())
			found := map[string]string{}
			for _, g := range a.Groups {
				found[g.Group] = fmt.Sprintf("%s,%s,%s", g.GroupState, g.ProtocolType, g.GroupType)
			}
			return fmt.Sprint(codeName(a.ErrorCode), found)
		}
		want(t, "all", list(nil, nil), "OKmap[empty:Empty,consumer,classic simple:Empty,,classic stable:Stable,consumer,classic]")
		want(t, "by state", list([]string{"stable"}, nil), "OKmap[stable:Stable,consumer,classic]")
		want(t, "by type", list(nil, []string{"Classic"}), list(nil, nil))
		want(t, "by another type", list(nil, []string{"consumer"}), "OKmap[]")

		for version := int16(0); version <= 6; version++ {
			q := describeRequest("stable", "empty", "simple", "nobody")
			q.Version, q.IncludeAuthorizedOperations = version, version >= 3
			a := wired(t, q, func(q *kmsg.DescribeGroupsRequest) *kmsg.DescribeGroupsResponse { return call(r.DescribeGroups, q) }, kmsg.NewPtrDescribeGroupsResponse())
			var states []string
			for _, g := range a.Groups {
				states = append(states, fmt.Sprintf("%s:%s:%s:%s:%d", codeName(g.ErrorCode), g.State, g.ProtocolType, g.Protocol, len(g.Members)))
			}
			unknown := "OK:Dead:::0"
			if version >= 6 {
				unknown = "GROUP_ID_NOT_FOUND:Dead:::0"
			}
			want(t, fmt.Sprint("describe version ", version), strings.Join(states, " "),
				"OK:Stable:consumer:range:1 OK:Empty:consumer::0 OK:Empty:::0 "+unknown)
			one := a.Groups[0].Members[0]
			if one.MemberID != m.id || one.ClientID != "client" || one.ClientHost != "/127.0.0.1" ||
				string(one.ProtocolMetadata) != string(subscription("t")) || string(one.MemberAssignment) != "assigned" {
				t.Errorf("version %d: member %+v", version, one)
			}
			if ops := a.Groups[0].AuthorizedOperations; version >= 3 && ops != 3400 {
				t.Errorf("version %d: operations %d", version, ops)
			}
		}
	})
}

// TestDeleteGroups: only groups without members, with everything they had.
func TestDeleteGroups(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("g")
		want(t, "commit", r.commit(m, "t", 0, 5), "OK")
		want(t, "commit", r.commit(outsider("simple"), "u", 1, 5), "OK")
		del := func(groups ...string) string {
			q := deleteRequest(groups...)
			a := wired(t, q, func(q *kmsg.DeleteGroupsRequest) *kmsg.DeleteGroupsResponse { return call(r.DeleteGroups, q) }, kmsg.NewPtrDeleteGroupsResponse())
			var out []string
			for _, g := range a.Groups {
				out = append(out, g.Group+"="+codeName(g.ErrorCode))
			}
			return strings.Join(out, " ")
		}
		want(t, "delete", del("g", "simple", "nobody"), "g=NON_EMPTY_GROUP simple=OK nobody=GROUP_ID_NOT_FOUND")
		want(t, "leave", r.leave(m), "OK")
		settle()
		r.topic.mu.Lock()
		r.topic.fail = kerr.NotEnoughReplicas
		r.topic.mu.Unlock()
		want(t, "delete without replicas", del("g"), "g=COORDINATOR_NOT_AVAILABLE")
		r.topic.mu.Lock()
		r.topic.fail = nil
		r.topic.mu.Unlock()
		if have := r.committed("g", "t", 0); have != 5 {
			t.Errorf("a delete that failed took the offset: %d", have)
		}
		if gen := r.shard("g").group("g").Generation(); gen != 2 {
			t.Errorf("a delete that failed took the generation: %d", gen)
		}
		want(t, "delete", del("g"), "g=OK")
		want(t, "delete again", del("g"), "g=GROUP_ID_NOT_FOUND")
		if have := r.committed("g", "t", 0); have != -1 {
			t.Errorf("offset %d of a deleted group", have)
		}
		for _, name := range []string{"g", "simple"} {
			if _, ok, err := r.store.Group(r.PartitionFor(name), name); ok || err != nil {
				t.Errorf("metadata of %s is left (%v)", name, err)
			}
		}
		if a := call(r.ListGroups, kmsg.NewPtrListGroupsRequest()); len(a.Groups) != 0 {
			t.Errorf("listed: %+v", a.Groups)
		}
	})
}

func TestOffsetDelete(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("g") // subscribed to t
		want(t, "commit", r.commit(m, "t", 0, 5), "OK")
		want(t, "commit", r.commit(m, "u", 0, 6), "OK")
		del := func(group string) string {
			q := kmsg.NewPtrOffsetDeleteRequest()
			q.Group = group
			for _, name := range []string{"t", "u", "nope"} {
				topic := kmsg.NewOffsetDeleteRequestTopic()
				topic.Topic = name
				topic.Partitions = append(topic.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
				q.Topics = append(q.Topics, topic)
			}
			a := wired(t, q, func(q *kmsg.OffsetDeleteRequest) *kmsg.OffsetDeleteResponse { return call(r.OffsetDelete, q) }, kmsg.NewPtrOffsetDeleteResponse())
			out := []string{codeName(a.ErrorCode)}
			for _, topic := range a.Topics {
				out = append(out, codeName(topic.Partitions[0].ErrorCode))
			}
			return strings.Join(out, " ")
		}
		want(t, "delete", del("g"), "OK GROUP_SUBSCRIBED_TO_TOPIC OK UNKNOWN_TOPIC_OR_PARTITION")
		if have := r.committed("g", "u", 0); have != -1 {
			t.Errorf("offset %d", have)
		}
		if have := r.committed("g", "t", 0); have != 5 {
			t.Errorf("offset %d", have)
		}
		want(t, "delete of nobody", del("nobody"), "GROUP_ID_NOT_FOUND")
	})
}

const day = 24 * time.Hour

// TestExpiry: offsets go 14 days after the group became empty, or after the
// commit where there never were members; those of load jobs never.
func TestExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		m := r.stable("g")
		want(t, "commit", r.commit(m, "t", 0, 5), "OK")
		want(t, "commit", r.commit(outsider("simple"), "t", 0, 5), "OK")
		want(t, "commit", r.commit(outsider("sawlog.job"), "t", 0, 5), "OK")
		old := commitRequest(outsider("old-client"), "t", 0, 5)
		old.Version, old.RetentionTimeMillis = 4, time.Hour.Milliseconds()
		want(t, "commit", codeName(call(r.OffsetCommit, old).Topics[0].Partitions[0].ErrorCode), "OK")
		state := func() string {
			return fmt.Sprint(r.committed("g", "t", 0), r.committed("simple", "t", 0), r.committed("sawlog.job", "t", 0), r.committed("old-client", "t", 0))
		}
		for range int(2 * day / (8 * time.Second)) { // a member keeps its group for two days
			pass(8 * time.Second)
			if code := r.heartbeat(m); code != "OK" {
				t.Fatal(code)
			}
		}
		want(t, "after 2 days", state(), "5 5 5 -1")
		want(t, "leave", r.leave(m), "OK")
		pass(12*day - 30*time.Minute)
		want(t, "just before 14 days", state(), "5 5 5 -1")
		pass(time.Hour)
		want(t, "after 14 days", state(), "5 -1 5 -1")
		pass(2 * day)
		want(t, "14 days after the last member", state(), "-1 -1 5 -1")
		if _, ok, err := r.store.Group(r.PartitionFor("g"), "g"); ok || err != nil {
			t.Errorf("the group itself is left (%v)", err)
		}
		if n := r.Metrics().Expired; n != 3 {
			t.Errorf("%d offsets expired, want 3", n)
		}
		// It was the log that said so: another replica applies the same.
		other := openStore(t, "")
		co, err := New(r.topic.config(other))
		if err != nil {
			t.Fatal(err)
		}
		for p := range int32(50) {
			co.Advance(p, r.topic.log(p).high)
		}
		settle()
		names := map[string]bool{}
		for p := range int32(50) {
			groups, err := other.OffsetGroups(p)
			if err != nil {
				t.Error(err)
			}
			for _, g := range groups {
				names[g] = true
			}
		}
		want(t, "groups on a replica", fmt.Sprint(names), "map[sawlog.job:true]")
		if err := co.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestTopicDeleted: a deleted topic's offsets go, also of load jobs; those of a
// topic that has taken the name stay, and old ones are not mistaken for them.
func TestTopicDeleted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for _, g := range []string{"a", "b", "sawlog.job"} {
			want(t, "commit", r.commit(outsider(g), "t", 0, 5), "OK")
			want(t, "commit", r.commit(outsider(g), "u", 0, 6), "OK")
		}
		// Made again before anybody has heard that it was deleted.
		r.topic.mu.Lock()
		r.topic.topics["t"] = offsets.TopicID{0x77}
		r.topic.mu.Unlock()
		if have := r.committed("a", "t", 0); have != -1 {
			t.Errorf("offset %d of a topic of the same name", have)
		}
		want(t, "commit", r.commit(outsider("b"), "t", 0, 1), "OK")
		r.TopicDeleted("t")
		settle()
		left := func(group string) string {
			topics, err := r.fetchAll(r.PartitionFor(group), group, 9)
			if err != nil {
				t.Fatal(err)
			}
			var out []string
			for _, topic := range topics {
				out = append(out, fmt.Sprintf("%s@%d", topic.Topic, topic.Partitions[0].Offset))
			}
			return strings.Join(out, " ")
		}
		want(t, "a", left("a"), "u@6")
		want(t, "b", left("b"), "t@1 u@6")
		want(t, "sawlog.job", left("sawlog.job"), "u@6")
		if _, ok, err := r.store.Offset(r.PartitionFor("a"), "a", offsets.TopicPartition{Topic: "t"}); ok || err != nil {
			t.Errorf("the offset is still stored (%v)", err)
		}
	})
}
