package replica

import "sawlog/offsets"

// Mend cuts a log off where it is damaged, for the leader has what comes there.
// It must not be called for a replica that counts as complete: until it has
// caught up it is a copy less.
func (p *Partition) Mend() (cut bool, err error) {
	p.leading.Lock()
	defer p.leading.Unlock()
	from, damaged := p.log.FirstDamage()
	p.mu.Lock()
	follows := p.gone == nil && !p.still && !p.state.Leads() && p.state.assigned.Leader != offsets.NoBroker
	p.mu.Unlock()
	if !damaged || !follows {
		return false, nil
	}
	_, err = p.cut(from)
	return true, err
}
