package formats

import (
	"bytes"
	"encoding/csv"
	"errors"
	"testing"
)

// FuzzCSV compares with encoding/csv: what it reads as one record we read as the
// same fields, what it refuses we refuse, and a refused record leaves nothing. Of
// line ends the two mean other things, so that records with carriage returns, or
// lines without anything, are only tried for harm.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"a,b,c", `"a","b","c"`, `"a,""b""",,`, `"a` + "\n" + `b",c,d` + "\n", "a,b,c\r\n", `a"b,c,d`, `"a"b,c,d`, `"a`, `"",` + "\xff,é", "a,b", "a,b,c,d", ",,", "a;b;c", `"";"a";`, "\n", "a,b,c\n\n", `"a"` + "\n" + `,b,c`,
	} {
		f.Add([]byte(seed), byte(','))
		f.Add([]byte(seed), byte(';'))
	}
	f.Fuzz(func(t *testing.T, value []byte, delimiter byte) {
		o := csvOptions("a b c")
		o.Delimiter = string(rune(delimiter & 0x7f))
		if delimiter&0x7f == 0 || o.Validate() != nil { // encoding/csv takes no zero
			return
		}
		d, c := newDecoder(t, o, nil)
		var bad *BadRecord
		if _, err := d.Append(c, &Message{Timestamp: 1, Value: value}); err != nil && (!errors.As(err, &bad) || c.Rows() != 0 || c.Bytes() != 0) {
			t.Fatalf("%q: %v, %d rows, %d bytes", value, err, c.Rows(), c.Bytes())
		}
		record := bytes.TrimSuffix(value, []byte("\n"))
		if len(record) == 0 || bytes.ContainsRune(value, '\r') || record[0] == '\n' || record[len(record)-1] == '\n' {
			return
		}
		r := csv.NewReader(bytes.NewReader(value))
		r.FieldsPerRecord, r.Comma = -1, rune(delimiter&0x7f)
		theirs, err := r.ReadAll()
		ours := d.(*textDecoder)
		switch split := ours.by.split(ours, value); {
		case err != nil || len(theirs) != 1:
			if split == nil {
				t.Errorf("%q: accepted, encoding/csv says %q, %v", value, theirs, err)
			}
		case len(theirs[0]) != len(ours.fields) || (split == nil) != (len(theirs[0]) == 3):
			t.Errorf("%q: %d fields, %v, encoding/csv says %q", value, len(ours.fields), split, theirs[0])
		default:
			for i, field := range ours.fields {
				if string(field.text) != theirs[0][i] || field.null && len(field.text) > 0 {
					t.Errorf("%q: field %d is %q, encoding/csv says %q", value, i, field.text, theirs[0][i])
				}
			}
		}
	})
}
