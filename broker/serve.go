package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/group"
	"sawlog/broker/wire"
)

// Serve runs one request. It is the one door: produce and fetch read their
// requests by hand, all others go through kmsg.
func (b *Broker) Serve(e *wire.Exchange) {
	switch {
	case b.failing():
		e.Fail(fmt.Errorf("the broker has failed"))
	case e.Key == keyProduce:
		b.produce(e)
	case e.Key == keyFetch:
		b.fetch(e)
	case e.Key == keyApiVersions:
		b.apiVersions(e)
	default:
		r := kmsg.RequestForKey(e.Key)
		r.SetVersion(e.Version)
		if err := r.ReadFrom(e.Body); err != nil {
			e.Fail(fmt.Errorf("%s version %d: %w", kmsg.Key(e.Key).Name(), e.Version, err))
			return
		}
		b.dispatch(e, r)
	}
}

// dispatch hands a request to its file.
func (b *Broker) dispatch(e *wire.Exchange, r kmsg.Request) {
	from := group.Client{ID: e.Client.ID, Host: e.Client.Host}
	switch r := r.(type) {
	case *kmsg.MetadataRequest:
		e.Reply(b.metadata(r))
	case *kmsg.ListOffsetsRequest:
		e.Reply(b.listOffsets(r))
	case *kmsg.CreateTopicsRequest:
		e.Reply(b.createTopics(r))
	case *kmsg.DeleteTopicsRequest:
		e.Reply(b.deleteTopics(r))
	case *kmsg.CreatePartitionsRequest:
		e.Reply(b.createPartitions(r))
	case *kmsg.DeleteRecordsRequest:
		e.Reply(b.deleteRecords(r))
	case *kmsg.DescribeConfigsRequest:
		e.Reply(b.describeConfigs(r))
	case *kmsg.AlterConfigsRequest:
		e.Reply(b.alterConfigs(r))
	case *kmsg.IncrementalAlterConfigsRequest:
		e.Reply(b.incrementalAlterConfigs(r))
	case *kmsg.DescribeClusterRequest:
		e.Reply(b.describeCluster(r))
	case *kmsg.DescribeLogDirsRequest:
		e.Reply(b.describeLogDirs(r))
	case *kmsg.DescribeTopicPartitionsRequest:
		e.Reply(b.describeTopicPartitions(r))
	case *kmsg.OffsetForLeaderEpochRequest:
		e.Reply(b.offsetForLeaderEpoch(r))
	case *kmsg.InitProducerIDRequest:
		e.Reply(b.initProducerID(r))
	case *kmsg.FindCoordinatorRequest:
		e.Reply(b.findCoordinator(r))
	case *kmsg.JoinGroupRequest:
		b.groups.JoinGroup(b.ctx, from, r, func(m *kmsg.JoinGroupResponse) { e.Reply(m) })
	case *kmsg.SyncGroupRequest:
		b.groups.SyncGroup(b.ctx, from, r, func(m *kmsg.SyncGroupResponse) { e.Reply(m) })
	case *kmsg.HeartbeatRequest:
		b.groups.Heartbeat(b.ctx, from, r, func(m *kmsg.HeartbeatResponse) { e.Reply(m) })
	case *kmsg.LeaveGroupRequest:
		b.groups.LeaveGroup(b.ctx, from, r, func(m *kmsg.LeaveGroupResponse) { e.Reply(m) })
	case *kmsg.OffsetCommitRequest:
		b.groups.OffsetCommit(b.ctx, from, r, func(m *kmsg.OffsetCommitResponse) { e.Reply(m) })
	case *kmsg.OffsetFetchRequest:
		b.groups.OffsetFetch(b.ctx, from, r, func(m *kmsg.OffsetFetchResponse) { e.Reply(m) })
	case *kmsg.OffsetDeleteRequest:
		b.groups.OffsetDelete(b.ctx, from, r, func(m *kmsg.OffsetDeleteResponse) { e.Reply(m) })
	case *kmsg.ListGroupsRequest:
		b.groups.ListGroups(b.ctx, from, r, func(m *kmsg.ListGroupsResponse) { e.Reply(m) })
	case *kmsg.DescribeGroupsRequest:
		b.groups.DescribeGroups(b.ctx, from, r, func(m *kmsg.DescribeGroupsResponse) { e.Reply(m) })
	case *kmsg.DeleteGroupsRequest:
		b.groups.DeleteGroups(b.ctx, from, r, func(m *kmsg.DeleteGroupsResponse) { e.Reply(m) })
	default:
		e.Fail(fmt.Errorf("no handler for key %d", e.Key))
	}
}

// maxAdminWait bounds how long an admin request may hold its connection.
const maxAdminWait = time.Minute

// adminContext bounds an admin request by the time its sender allows.
func (b *Broker) adminContext(timeoutMillis int32) (context.Context, context.CancelFunc) {
	wait := time.Duration(timeoutMillis) * time.Millisecond
	if wait <= 0 || wait > maxAdminWait {
		wait = maxAdminWait
	}
	return context.WithTimeout(b.ctx, wait)
}

func nowMilli() int64 { return time.Now().UnixMilli() }
