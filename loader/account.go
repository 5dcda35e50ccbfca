package loader

import "sawlog/consumer"

// Account says what became of the offsets of a range: each is in one of its
// counts.
type Account struct {
	Data        int64 `json:"data"`
	Skipped     int64 `json:"skipped"`
	Quarantined int64 `json:"quarantined"`
	Control     int64 `json:"control"`
	Aborted     int64 `json:"aborted"`
	Compacted   int64 `json:"compacted"`
	Gap         int64 `json:"gap"`
}

// Accounted is the sum of the counts, which must equal End − Start.
func (a *Account) Accounted() int64 {
	return a.Data + a.Skipped + a.Quarantined + a.Control + a.Aborted + a.Compacted + a.Gap
}

// Add takes in the offsets of another range.
func (a *Account) Add(b *Account) {
	a.Data += b.Data
	a.Skipped += b.Skipped
	a.Quarantined += b.Quarantined
	a.Control += b.Control
	a.Aborted += b.Aborted
	a.Compacted += b.Compacted
	a.Gap += b.Gap
}

// take adds what a reader passed. The records it returned are data but for those
// that were skipped or put into quarantine, which are counted already.
func (a *Account) take(c consumer.Counts) {
	a.Control, a.Aborted, a.Compacted, a.Gap = c.Control, c.Aborted, c.Compacted, c.Gap
	a.Data = c.Data - a.Skipped - a.Quarantined
}

// negative tells of a count below zero.
func (a *Account) negative() bool {
	return min(a.Data, a.Skipped, a.Quarantined, a.Control, a.Aborted, a.Compacted, a.Gap) < 0
}
