package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientQuotas, versions 0–1 (KIP-546): there are no quotas, so any
// question that makes sense has an empty answer.

func (b *Broker) describeClientQuotas(r *kmsg.DescribeClientQuotasRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeClientQuotasResponse)
	m.ErrorMessage, m.Entries = new(""), []kmsg.DescribeClientQuotasResponseEntry{}
	if err := checkQuotaFilter(r.Components); err != nil {
		m.Entries = nil
		m.ErrorCode, m.ErrorMessage = codeAndText(err)
	}
	return m
}

// Ways a quota entity is matched.
const (
	matchExact   = 0
	matchDefault = 1
	matchAny     = 2
)

func checkQuotaFilter(components []kmsg.DescribeClientQuotasRequestComponent) error {
	var seen []string
	for _, c := range components {
		kind := c.EntityType
		switch {
		case kind == "":
			return refuse(kerr.InvalidRequest, "Invalid empty entity type.")
		case slices.Contains(seen, kind):
			return refuse(kerr.InvalidRequest, "Entity type %s cannot appear more than once in the filter.", kind)
		case !slices.Contains([]string{"user", "client-id", "ip"}, kind):
			return refuse(kerr.UnsupportedVersion, "Unsupported entity type %s", kind)
		}
		seen = append(seen, kind)
		match := int8(c.MatchType)
		switch {
		case match == matchExact && c.Match == nil:
			return refuse(kerr.InvalidRequest, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
		case match == matchDefault && c.Match != nil:
			return refuse(kerr.InvalidRequest, "Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
		case match == matchAny && c.Match != nil:
			return refuse(kerr.InvalidRequest, "Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
		case match < matchExact || match > matchAny:
			return refuse(kerr.InvalidRequest, "Unknown match type %d", match)
		}
	}
	if slices.Contains(seen, "ip") && len(seen) > 1 {
		return refuse(kerr.InvalidRequest, "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter component.")
	}
	return nil
}
