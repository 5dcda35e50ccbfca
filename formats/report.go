package formats

// Report is what inference saw: mergeable, and the same whatever the order.
type Report struct{}
