package replica

import "sawlog/offsets"

// Lags tells how many offsets each follower that has fetched in this epoch is
// behind the log's end; nothing where this broker doesn't lead.
func (p *Partition) Lags(tell func(follower offsets.BrokerID, behind int64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.state.Leads() || p.gone != nil {
		return
	}
	for _, f := range p.state.followers {
		if f.fetched {
			tell(f.id, max(0, int64(p.state.logEnd-f.end)))
		}
	}
}
