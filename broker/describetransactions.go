package broker

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeTransactions, version 0 (KIP-664): no transactional id is known.

func (b *Broker) describeTransactions(r *kmsg.DescribeTransactionsRequest) kmsg.Response {
	m := r.ResponseKind().(*kmsg.DescribeTransactionsResponse)
	for _, id := range r.TransactionalIDs {
		out := kmsg.NewDescribeTransactionsResponseTransactionState()
		out.TransactionalID, out.ErrorCode = id, kerr.TransactionalIDNotFound.Code
		if id == "" {
			out.ErrorCode = kerr.InvalidRequest.Code
		}
		m.TransactionStates = append(m.TransactionStates, out)
	}
	return m
}
