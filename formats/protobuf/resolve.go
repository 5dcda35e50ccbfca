package protobuf

import "maps"

// Resolve is a message of a writer as a reader knows it. How bytes lie is the
// writer's word: kinds, presence, oneofs. Names are the reader's, by number, for
// fields and for the symbols of enums, so that what was renamed stays in its
// place. Fields that only the writer has keep their names, unless another field
// has it; those that only the reader has follow, for a message may carry what its
// writer did not know.
func Resolve(writer, reader *Message) *Message {
	return resolver{}.message(writer, reader)
}

// resolver remembers the pairs it has met, for messages within themselves.
type resolver map[[2]*Message]*Message

func (r resolver) message(writer, reader *Message) *Message {
	if writer == reader || reader == nil || writer.special() || reader.special() {
		return writer
	}
	pair := [2]*Message{writer, reader}
	if m := r[pair]; m != nil {
		return m
	}
	m := &Message{Name: writer.Name, json: writer.json}
	r[pair] = m
	byNumber, taken := map[int32]*Field{}, map[string]bool{}
	for i := range reader.Fields {
		byNumber[reader.Fields[i].Number] = &reader.Fields[i]
	}
	written := map[int32]bool{}
	for i := range writer.Fields {
		f := &writer.Fields[i]
		written[f.Number] = true
		if as := byNumber[f.Number]; as != nil {
			taken[as.Name] = true
		}
	}
	for i := range writer.Fields {
		f := writer.Fields[i]
		if as := byNumber[f.Number]; as != nil {
			m.Fields = append(m.Fields, r.field(f, as))
		} else if !taken[f.Name] {
			taken[f.Name] = true
			m.Fields = append(m.Fields, f)
		}
	}
	for i := range reader.Fields {
		if f := reader.Fields[i]; !written[f.Number] && !taken[f.Name] {
			f.Oneof = 0 // no member of it is written
			m.Fields = append(m.Fields, f)
		}
	}
	return m
}

func (r resolver) field(f Field, as *Field) Field {
	f.Name = as.Name
	if f.Message != nil {
		f.Message = r.message(f.Message, as.Message)
	}
	if f.Symbols != nil && as.Symbols != nil {
		f.Symbols = maps.Clone(f.Symbols)
		maps.Copy(f.Symbols, as.Symbols)
	}
	return f
}

// special says that the message has a meaning of its own.
func (m *Message) special() bool { return m.Name == Timestamp || m.Free() || m.Wrapper() }
