package broker_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker"
	"sawlog/broker/brokertest"
)

// TestLargeRequestsStayCheap: well-formed requests as large as they may be, made
// to be answered with the square of their size or a thousandfold of it, are
// answered soon, and not at length.
func TestLargeRequestsStayCheap(t *testing.T) {
	b := brokertest.Start(t, func(c *broker.Config) { c.Logger = nil })
	c := wireClient(t, b)
	createTopic(t, c, "t", 3)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"wide"}
	if got := ask[*kmsg.FindCoordinatorResponse](t, c, find).Coordinators[0]; got.ErrorCode != 0 {
		t.Fatalf("find coordinator: %+v", got)
	}
	const many = 150_000
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	value := "1"
	describe := kmsg.NewPtrDescribeConfigsRequest()
	scram := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
	alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: "t"}}
	kinds := kmsg.NewPtrListConfigResourcesRequest()
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "t"}}
	trim := kmsg.NewPtrDeleteRecordsRequest()
	trim.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t"}}
	deletion, listing := kmsg.NewPtrDeleteGroupsRequest(), kmsg.NewPtrListGroupsRequest()
	listing.StatesFilter = names
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "wide", "consumer", 10_000, 10_000
	for i, name := range names {
		describe.Resources = append(describe.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: 2, ResourceName: "t"})
		scram.Users = append(scram.Users, kmsg.DescribeUserSCRAMCredentialsRequestUser{Name: name})
		alter.Resources[0].Configs = append(alter.Resources[0].Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: name, Value: &value})
		kinds.ResourceTypes = append(kinds.ResourceTypes, []int8{2, 4}[2*i/many])
		dirs.Topics[0].Partitions = append(dirs.Topics[0].Partitions, int32(i))
		trim.Topics[0].Partitions = append(trim.Topics[0].Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: int32(i)})
		deletion.Groups = append(deletion.Groups, name)
		join.Protocols = append(join.Protocols, kmsg.JoinGroupRequestProtocol{Name: name})
	}
	long := strings.Repeat("a,", 400_000)
	list := kmsg.NewPtrIncrementalAlterConfigsRequest()
	list.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: 2, ResourceName: "t", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "cleanup.policy", Op: kmsg.IncrementalAlterConfigOpAppend, Value: &long}}}}
	limit := 20 * time.Second
	if raceEnabled {
		limit = 50 * time.Second // it slows such loops down by ten
	}
	for _, r := range []kmsg.Request{describe, scram, alter, kinds, dirs, trim, listing, deletion, join, list} {
		r.SetVersion(r.MaxVersion())
		if r.Key() == 11 {
			r.SetVersion(3) // joins at once
		}
		began := time.Now()
		size, err := answerSize(t, b, r)
		if err != nil {
			t.Errorf("%s: %v", kmsg.NameForKey(r.Key()), err)
		}
		if took := time.Since(began); took > limit || size > 80<<20 {
			t.Errorf("%s was answered after %v with %d bytes", kmsg.NameForKey(r.Key()), took, size)
		}
	}
}

// answerSize sends a request and passes over the answer.
func answerSize(t *testing.T, b *broker.Broker, r kmsg.Request) (int64, error) {
	t.Helper()
	c, err := net.Dial("tcp", b.Addr())
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }() // nothing is asked of it any more
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return 0, err
	}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("large")).AppendRequest(nil, r, 7)); err != nil {
		return 0, err
	}
	var head [4]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, err
	}
	return io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head[:])))
}

// TestGroupsAreDescribedToALimit: a group with much to tell, asked for over and
// over, is told until the answer is full; the rest is refused.
func TestGroupsAreDescribedToALimit(t *testing.T) {
	c := wireClient(t, brokertest.Start(t, nil))
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"big"}
	ask[*kmsg.FindCoordinatorResponse](t, c, find)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "big", "consumer", 30_000, 30_000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 1<<20)}}
	member := askAt[*kmsg.JoinGroupResponse](t, c, 3, join)
	sync := &kmsg.SyncGroupRequest{Group: "big", MemberID: member.MemberID, Generation: member.Generation}
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: member.MemberID, MemberAssignment: make([]byte, 1<<20)}}
	if got := askAt[*kmsg.SyncGroupResponse](t, c, 4, sync); got.ErrorCode != 0 {
		t.Fatalf("sync: %+v", got.ErrorCode)
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	for range 200 {
		describe.Groups = append(describe.Groups, "big")
	}
	told, refused := 0, 0
	for _, g := range ask[*kmsg.DescribeGroupsResponse](t, c, describe).Groups {
		switch g.ErrorCode {
		case 0:
			told++
		case kerr.InvalidRequest.Code:
			refused++
		}
	}
	if told < 30 || told > 35 || told+refused != 200 {
		t.Errorf("%d told, %d refused", told, refused)
	}
}
