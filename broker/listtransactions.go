package broker

import (
	"regexp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListTransactions, versions 0–2 (KIP-664, KIP-994, KIP-1152): there are none,
// but states and patterns nobody could mean are pointed out.

func (b *Broker) listTransactions(r *kmsg.ListTransactionsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.ListTransactionsResponse)
	states := []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}
	for _, s := range r.StateFilters {
		if !slices.Contains(states, s) {
			m.UnknownStateFilters = append(m.UnknownStateFilters, s)
		}
	}
	if r.TransactionalIDPattern != nil {
		if _, err := regexp.Compile(*r.TransactionalIDPattern); err != nil {
			m.ErrorCode = kerr.InvalidRegularExpression.Code
		}
	}
	return m
}
