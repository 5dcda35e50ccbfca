package replica

import "slices"

// commit is somebody who waits for an append to be decided.
type commit struct {
	w      Waiter
	ticket Ticket
}

// Await has w woken once with 0 when an append is committed, and from then on not
// any more; with −1 whenever something happened after which it may never be. If
// it is decided already, w is woken by −1 at once.
func (p *Partition) Await(w Waiter, t Ticket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits = append(p.commits, commit{w, t})
	if done, err := p.committed(t); done || err != nil {
		w.Wake(-1)
	}
}

// Unawait takes back an Await, and tells whether its 0 was still to come.
func (p *Partition) Unawait(w Waiter, t Ticket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.commits, commit{w, t})
	if i < 0 {
		return false
	}
	p.commits = slices.Delete(p.commits, i, i+1)
	return true
}

// decide wakes those whose appends the high watermark has passed; when anything
// may have happened, everybody. Called with mu held.
func (p *Partition) decide(anything bool) {
	left := p.commits[:0]
	for _, c := range p.commits {
		switch done, err := p.committed(c.ticket); {
		case anything || err != nil:
			c.w.Wake(-1)
		case done:
			c.w.Wake(0)
			continue
		}
		left = append(left, c)
	}
	clear(p.commits[len(left):])
	p.commits = left
}

// Committed tells whether an append is safe, or why it will not be known to be.
func (p *Partition) Committed(t Ticket) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.committed(t)
}

func (p *Partition) committed(t Ticket) (bool, error) {
	if p.gone != nil {
		return false, p.gone
	}
	return p.state.Committed(t.Epoch, t.End)
}
