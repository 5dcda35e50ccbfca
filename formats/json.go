package formats

// jsonDecoder decodes one JSON object a record.
type jsonDecoder struct {
	*rowFrame
	root   *object
	rest   *sink   // the column of members without a slot; nil = none
	clock  *object // knows the event time only
	filter *filter
	fast   fastJSON
}

func newJSONDecoder(f *rowFrame) (Decoder, error) {
	d := &jsonDecoder{rowFrame: f, filter: f.o.filter()}
	var err error
	if d.root, d.rest, err = compileJSON(f.schema, &f.o, f.times); err != nil {
		return nil, err
	}
	d.clock, _, err = compileJSON(&Schema{}, &f.o, f.times)
	return d, err
}

// Time finds the event time.
func (d *jsonDecoder) Time(m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(nil, m)
	}
	if d.o.Time.fromRecord() {
		return d.recordTime(m)
	}
	d.fast.start(nil, m)
	if d.fast.record(d.clock) {
		if at, err := d.fastTime(m); err == nil {
			return at, nil
		}
	}
	n, err := parseJSON(m.Value)
	if err != nil {
		return 0, err
	}
	s := shredder{}
	if err := s.members(d.clock, n, 0); err != nil {
		return 0, err
	}
	return d.eventTime(s.time, m)
}

// Append adds the record as a row.
func (d *jsonDecoder) Append(c *Columns, m *Message) (Instant, error) {
	if m.Value == nil {
		return d.tombstone(c, m)
	}
	d.fast.start(c, m)
	if d.fast.record(d.root) {
		if at, err := d.fastTime(m); err == nil {
			if err := d.finish(c, m); err != nil {
				return 0, err
			}
			d.replaced += d.fast.replaced
			return at, nil
		}
	}
	c.Truncate(c.rows)
	at, err := d.slow(c, m)
	if err != nil {
		c.Truncate(c.rows)
	}
	return at, err
}

// slow decodes the record in full.
func (d *jsonDecoder) slow(c *Columns, m *Message) (Instant, error) {
	n, err := parseJSON(m.Value)
	if err != nil {
		return 0, err
	}
	if unknownPath(d.root, n, d.filter) {
		// Inference must take the record too, or the new path would never come.
		if err := checkNumbers(n); err != nil {
			return 0, err
		}
		return 0, ErrUnknownPath
	}
	s := shredder{cells: cells{c: c, ref: m.Timestamp}}
	if err := s.members(d.root, n, 0); err != nil {
		return 0, err
	}
	s.leftOver(d.rest)
	at, err := d.eventTime(s.time, m)
	if err != nil {
		return 0, err
	}
	if err := d.finish(c, m); err != nil {
		return 0, err
	}
	d.duplicate += s.duplicates
	d.replaced += s.replaced
	return at, nil
}

func (f *fastJSON) start(c *Columns, m *Message) {
	f.c, f.ref, f.replaced, f.seenTime = c, m.Timestamp, 0, nil
	f.b = m.Value
	f.timeStart, f.timeEnd = 0, 0
}

// fastTime is the event time of the record the fast path has read; any error
// sends the record to the slow path.
func (d *jsonDecoder) fastTime(m *Message) (Instant, error) {
	if d.o.Time.fromRecord() {
		return d.recordTime(m)
	}
	value := m.Value[d.fast.timeStart:d.fast.timeEnd]
	switch {
	case len(value) == 0 || value[0] == 'n':
		return 0, d.noTime()
	case value[0] == '"':
		text := value[1 : len(value)-1]
		if known := d.fast.seenTime; len(known) > 0 && len(known) == len(text) && &known[0] == &text[0] {
			return d.plausible(d.fast.seenMoment.instant()) // a column has read it
		}
		return d.timeText(text, m)
	default:
		return d.timeNumber(value)
	}
}

// eventTime is the event time of a decoded tree.
func (d *jsonDecoder) eventTime(n *jsonNode, m *Message) (Instant, error) {
	switch {
	case d.o.Time.fromRecord():
		return d.recordTime(m)
	case n == nil || n.kind == 'n':
		return 0, d.noTime()
	case n.kind == '"':
		return d.timeText(n.text, m)
	case n.kind == '#':
		return d.timeNumber(n.raw)
	default:
		return 0, &BadRecord{BadTime, "event time is " + n.describe()}
	}
}
