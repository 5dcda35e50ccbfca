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
		m := b.admin(r)
		if m == nil {
			e.Fail(fmt.Errorf("no handler for key %d", e.Key))
			return
		}
		e.Reply(m)
	}
}

// admin answers what tools and consoles ask; nil for what isn't known.
func (b *Broker) admin(r kmsg.Request) kmsg.Response {
	switch r := r.(type) {
	case *kmsg.SASLHandshakeRequest:
		return b.saslHandshake(r)
	case *kmsg.CreateTopicsRequest:
		return b.createTopics(r)
	case *kmsg.DeleteTopicsRequest:
		return b.deleteTopics(r)
	case *kmsg.DeleteRecordsRequest:
		return b.deleteRecords(r)
	case *kmsg.DescribeACLsRequest:
		return b.describeACLs(r)
	case *kmsg.CreateACLsRequest:
		return b.createACLs(r)
	case *kmsg.DeleteACLsRequest:
		return b.deleteACLs(r)
	case *kmsg.DescribeConfigsRequest:
		return b.describeConfigs(r)
	case *kmsg.AlterConfigsRequest:
		return b.alterConfigs(r)
	case *kmsg.AlterReplicaLogDirsRequest:
		return b.alterReplicaLogDirs(r)
	case *kmsg.DescribeLogDirsRequest:
		return b.describeLogDirs(r)
	case *kmsg.SASLAuthenticateRequest:
		return b.saslAuthenticate(r)
	case *kmsg.CreatePartitionsRequest:
		return b.createPartitions(r)
	case *kmsg.CreateDelegationTokenRequest:
		return b.createDelegationToken(r)
	case *kmsg.RenewDelegationTokenRequest:
		return b.renewDelegationToken(r)
	case *kmsg.ExpireDelegationTokenRequest:
		return b.expireDelegationToken(r)
	case *kmsg.DescribeDelegationTokenRequest:
		return b.describeDelegationToken(r)
	case *kmsg.ElectLeadersRequest:
		return b.electLeaders(r)
	case *kmsg.IncrementalAlterConfigsRequest:
		return b.incrementalAlterConfigs(r)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return b.alterPartitionReassignments(r)
	case *kmsg.ListPartitionReassignmentsRequest:
		return b.listPartitionReassignments(r)
	case *kmsg.DescribeClientQuotasRequest:
		return b.describeClientQuotas(r)
	case *kmsg.DescribeUserSCRAMCredentialsRequest:
		return b.describeUserScramCredentials(r)
	case *kmsg.DescribeQuorumRequest:
		return b.describeQuorum(r)
	case *kmsg.UpdateFeaturesRequest:
		return b.updateFeatures(r)
	case *kmsg.DescribeClusterRequest:
		return b.describeCluster(r)
	case *kmsg.DescribeProducersRequest:
		return b.describeProducers(r)
	case *kmsg.UnregisterBrokerRequest:
		return b.unregisterBroker(r)
	case *kmsg.DescribeTransactionsRequest:
		return b.describeTransactions(r)
	case *kmsg.ListTransactionsRequest:
		return b.listTransactions(r)
	case *kmsg.ListConfigResourcesRequest:
		return b.listConfigResources(r)
	case *kmsg.DescribeTopicPartitionsRequest:
		return b.describeTopicPartitions(r)
	}
	return nil
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
