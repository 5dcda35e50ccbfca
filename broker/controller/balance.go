package controller

import (
	"time"

	"sawlog/offsets"
)

const (
	// balanceAfter is for how long no broker's service may have changed before
	// leaders are moved back.
	balanceAfter = 30 * time.Second
	// balanceStep is how many leaders move back between two looks.
	balanceStep = 200
)

// balance moves some leaders back to where they belong when the brokers have
// been steady since a time.
func (c *Controller) balance(im *Image, steady time.Time) {
	if time.Since(steady) < balanceAfter || len(im.balance(c.settings, 1)) == 0 {
		return
	}
	if o := c.propose(c.closed, balanceAsk{balanceStep}); o.err != nil {
		c.logger.Warn("leaders are not moved back", "error", o.err)
	}
}

// sameBrokers tells whether the same incarnations of brokers are in the same
// service in two images.
func sameBrokers(a, b *Image) bool {
	if len(a.Brokers) != len(b.Brokers) {
		return false
	}
	service := make(map[offsets.BrokerID]int64, len(a.Brokers))
	for i := range a.Brokers {
		if br := &a.Brokers[i]; br.usable() {
			service[br.ID] = br.Epoch
		}
	}
	for i := range b.Brokers {
		br := &b.Brokers[i]
		if epoch, was := service[br.ID]; was != br.usable() || was && epoch != br.Epoch {
			return false
		}
	}
	return true
}
