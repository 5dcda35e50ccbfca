package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeUserScramCredentials, version 0 (KIP-554): nobody has any.

func (b *Broker) describeUserScramCredentials(r *kmsg.DescribeUserSCRAMCredentialsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeUserSCRAMCredentialsResponse)
	m.ErrorMessage = new("")
	count := map[string]int{}
	for _, u := range r.Users {
		count[u.Name]++
	}
	for _, u := range r.Users {
		err := refuse(kerr.ResourceNotFound, "Attempt to describe a user credential that does not exist: %s", u.Name)
		switch n := count[u.Name]; {
		case n == answered:
			continue
		case n > 1:
			count[u.Name] = answered
			err = refuse(kerr.DuplicateResource, "Cannot describe SCRAM credentials for the same user twice in a single request: %s", u.Name)
		}
		out := kmsg.NewDescribeUserSCRAMCredentialsResponseResult()
		out.User = u.Name
		out.ErrorCode, out.ErrorMessage = codeAndText(err)
		m.Results = append(m.Results, out)
	}
	return m
}
