package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeAcls, CreateAcls and DeleteAcls, versions 1–3 (KIP-140): all three are
// answered with SECURITY_DISABLED, as by a Kafka broker without an authorizer.
// Nobody is kept from anything, and a rule must not seem to be in force.

func (b *Broker) describeACLs(r *kmsg.DescribeACLsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeACLsResponse)
	m.ErrorCode, m.ErrorMessage = codeAndText(refuse(kerr.SecurityDisabled, "No Authorizer is configured on the broker"))
	return m
}

func (b *Broker) createACLs(r *kmsg.CreateACLsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.CreateACLsResponse)
	for range r.Creations {
		out := kmsg.NewCreateACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = codeAndText(errNoAuthorizer())
		m.Results = append(m.Results, out)
	}
	return m
}

func (b *Broker) deleteACLs(r *kmsg.DeleteACLsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range r.Filters {
		out := kmsg.NewDeleteACLsResponseResult()
		out.ErrorCode, out.ErrorMessage = codeAndText(errNoAuthorizer())
		m.Results = append(m.Results, out)
	}
	return m
}

func errNoAuthorizer() error {
	return refuse(kerr.SecurityDisabled, "No Authorizer is configured.")
}
