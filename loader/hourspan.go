package loader

// HourSpan is the hours [From, To), by bucket key. A nil one is all hours: every
// key is that of some hour, 0 that of 1970.
type HourSpan struct{ From, To int64 }

// holds tells whether an hour is one of the span.
func (s *HourSpan) holds(hour int64) bool { return s == nil || s.From <= hour && hour < s.To }
