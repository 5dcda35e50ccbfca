package formats

import (
	"bytes"
	"fmt"
)

// csvSplitter reads one RFC 4180 record of a log record.
type csvSplitter struct{ delimiter byte }

func newCSVDecoder(f *rowFrame) (Decoder, error) {
	s := csvSplitter{','}
	if f.o.Delimiter != "" {
		s.delimiter = f.o.Delimiter[0]
	}
	return newTextDecoder(f, s, f.o.Columns, "decode.columns")
}

func (s csvSplitter) split(d *textDecoder, b []byte) error {
	b = withoutLineEnd(b)
	d.fields = d.fields[:0]
	for p := 0; ; p++ {
		var f textField
		var err error
		if p < len(b) && b[p] == '"' {
			f, p, err = quotedField(b, p)
		} else {
			f, p, err = s.bareField(b, p)
		}
		if err != nil {
			return err
		}
		d.fields = append(d.fields, f)
		if p >= len(b) {
			break
		}
		if b[p] != s.delimiter {
			return &BadRecord{BadSyntax, fmt.Sprintf("byte %d: data after a closing quote", p)}
		}
	}
	if len(d.fields) != len(d.sinks) {
		return &BadRecord{BadFields, fmt.Sprintf("%d fields, expected %d", len(d.fields), len(d.sinks))}
	}
	if d.o.SkipHeader && isHeader(d) {
		return ErrSkip
	}
	return nil
}

func isHeader(d *textDecoder) bool {
	for i, f := range d.fields {
		if string(f.text) != d.o.Columns[i] {
			return false
		}
	}
	return true
}

// bareField reads a field without quotes and gives the position of its end.
func (s csvSplitter) bareField(b []byte, p int) (textField, int, error) {
	end := len(b)
	if i := bytes.IndexByte(b[p:], s.delimiter); i >= 0 {
		end = p + i
	}
	f := textField{text: b[p:end], null: p == end}
	if i := bytes.IndexAny(f.text, "\"\n"); i >= 0 {
		return f, p, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: %q in a field without quotes", p+i, f.text[i])}
	}
	return f, end, nil
}

// quotedField reads a field whose opening quote stands at p and gives the
// position behind its closing one.
func quotedField(b []byte, p int) (textField, int, error) {
	var f textField
	start := p + 1
	var joined []byte
	for at := start; ; {
		i := bytes.IndexByte(b[at:], '"')
		if i < 0 {
			return f, p, &BadRecord{BadSyntax, fmt.Sprintf("byte %d: quote without end", p)}
		}
		end := at + i
		if end+1 >= len(b) || b[end+1] != '"' {
			if joined == nil {
				f.text = b[start:end]
			} else {
				f.text = append(joined, b[at:end]...)
			}
			return f, end + 1, nil
		}
		joined = append(joined, b[at:end+1]...)
		at = end + 2
	}
}
