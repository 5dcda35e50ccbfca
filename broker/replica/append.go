package replica

import (
	"sawlog/broker/log"
	"sawlog/broker/record"
	"sawlog/offsets"
)

// Append is what an append asks for.
type Append struct {
	All      bool           // acks=all: refuse when too few replicas are in sync
	Epoch    offsets.Epoch  // append only in this leader epoch; NoEpoch = any
	Now      int64          // milliseconds
	Internal bool           // written by the broker itself
	Into     []log.Appended // memory for the results; may be nil
}

// Ticket is an append whose acknowledgement is due once it is committed in the
// epoch it was written in.
type Ticket struct {
	Epoch offsets.Epoch
	End   offsets.Offset
}

// Append writes batches as the leader. The results are in the batches' order;
// with an error nothing was written.
func (p *Partition) Append(batches []record.Batch, a Append) ([]log.Appended, Ticket, error) {
	p.leading.RLock()
	defer p.leading.RUnlock()
	v, err := p.admit(a)
	if err != nil {
		return nil, Ticket{}, err
	}
	results, err := p.log.Append(batches, log.Append{Epoch: v.Epoch, Now: a.Now, Internal: a.Internal, Into: a.Into})
	if err != nil {
		return nil, Ticket{}, err
	}
	ticket := Ticket{Epoch: v.Epoch}
	var bytes int64
	for i, r := range results {
		ticket.End = max(ticket.End, r.Last+1)
		if !r.Duplicate {
			bytes += int64(len(batches[i]))
		}
	}
	p.change(bytes, p.grown)
	return results, ticket, nil
}

// grown takes the log's end into the state. The log is asked under mu, so that
// of two appends the later end is never overwritten by the earlier.
func (p *Partition) grown(s *State) { s.Appended(p.log.End(), p.unstable()) }

// unstable is the first offset of an open transaction, or −1.
func (p *Partition) unstable() offsets.Offset {
	if at, ok := p.log.FirstUnstable(); ok {
		return at
	}
	return -1
}

// admit tells whether an append may be made now.
func (p *Partition) admit(a Append) (View, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, err := p.judge(a.Epoch, false)
	switch {
	case err != nil:
		return v, err
	case p.still, p.state.Stranded(): // a new epoch begins, here or elsewhere
		return v, ErrNotLeader
	case a.All && p.state.UnderMinISR():
		return v, ErrNotEnoughReplicas
	}
	return v, nil
}
