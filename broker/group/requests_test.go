package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"
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
