package formats

// QuarantineSchema is the schema of the files that keep bad records: where each
// stood, its raw bytes, and why it is bad.
func QuarantineSchema() *Schema {
	plain := func(k Kind) *Type { return &Type{Kind: k} }
	header := &Type{Kind: Struct, Fields: []Field{{Name: "key", Type: plain(String)}, {Name: "value", Type: plain(Bytes)}}}
	return &Schema{Fields: []Field{
		{Name: "topic", Type: plain(String)},
		{Name: "partition", Type: plain(Int32)},
		{Name: "offset", Type: plain(Int64)},
		{Name: "timestamp", Type: &Type{Kind: Timestamp, Unit: Millis}},
		{Name: "key", Type: plain(Bytes)},
		{Name: "headers", Type: &Type{Kind: List, Elem: header}},
		{Name: "value", Type: plain(Bytes)},
		{Name: "reason", Type: plain(String)},
		{Name: "detail", Type: plain(String)},
	}}
}

// AppendQuarantine adds a bad record to columns of the QuarantineSchema. A
// timestamp of -1, a null key and a null value become nulls.
func (c *Columns) AppendQuarantine(m *Message, bad *BadRecord) {
	c.setBytes(0, []byte(m.Topic))
	c.vecs[1].Int32s = append(c.vecs[1].Int32s, m.Partition)
	c.vecs[1].level(&c.leaves[1], 1, 0)
	c.vecs[2].Int64s = append(c.vecs[2].Int64s, m.Offset)
	c.vecs[2].level(&c.leaves[2], 1, 0)
	if m.Timestamp >= 0 {
		c.vecs[3].Int64s = append(c.vecs[3].Int64s, m.Timestamp)
		c.vecs[3].level(&c.leaves[3], 1, 0)
	}
	c.setBytes(4, m.Key)
	key, value := &c.vecs[5], &c.vecs[6]
	if len(m.Headers) == 0 { // an empty list
		key.level(&c.leaves[5], 1, 0)
		value.level(&c.leaves[6], 1, 0)
	}
	for i := range m.Headers {
		rep := int16(min(i, 1))
		key.Data, _ = appendUTF8(key.Data, []byte(m.Headers[i].Key))
		key.seal()
		key.level(&c.leaves[5], c.leaves[5].MaxDef, rep)
		if m.Headers[i].Value == nil {
			value.level(&c.leaves[6], c.leaves[6].MaxDef-1, rep)
			continue
		}
		value.Data = append(value.Data, m.Headers[i].Value...)
		value.seal()
		value.level(&c.leaves[6], c.leaves[6].MaxDef, rep)
	}
	c.setBytes(7, m.Value)
	c.setBytes(8, []byte(bad.Reason))
	var detail []byte
	detail, _ = appendUTF8(detail, []byte(bad.Detail))
	c.setBytes(9, detail)
	c.endRow()
}

// setBytes gives a top-level byte leaf its value; null where it is nil.
func (c *Columns) setBytes(leaf int, value []byte) {
	if value == nil {
		return
	}
	v := &c.vecs[leaf]
	v.Data = append(v.Data, value...)
	v.seal()
	v.level(&c.leaves[leaf], 1, 0)
}
