package loader

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Canonical is the one JSON form of a value: keys in byte order, no spaces,
// integers only. Equal values have equal bytes on every machine, so that hashes
// of them mean something.
func Canonical(v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(plain))
	dec.UseNumber()
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	var out bytes.Buffer
	if err := writeCanonical(&out, tree); err != nil {
		return nil, fmt.Errorf("canonical json: %w", err)
	}
	return out.Bytes(), nil
}

func writeCanonical(out *bytes.Buffer, v any) error {
	switch v := v.(type) {
	case map[string]any:
		out.WriteByte('{')
		for i, key := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				out.WriteByte(',')
			}
			writeText(out, key)
			out.WriteByte(':')
			if err := writeCanonical(out, v[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := writeCanonical(out, e); err != nil {
				return err
			}
		}
		out.WriteByte(']')
	case json.Number:
		if _, err := strconv.ParseInt(v.String(), 10, 64); err != nil {
			return fmt.Errorf("%s is not an integer of 64 bits", v)
		}
		out.WriteString(v.String())
	case string:
		writeText(out, v)
	case bool:
		out.WriteString(strconv.FormatBool(v))
	case nil:
		out.WriteString("null")
	}
	return nil
}

// writeText writes a JSON string with as few escapes as JSON allows.
func writeText(out *bytes.Buffer, s string) {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into a buffer cannot fail
	out.Truncate(out.Len() - 1)
}

// PlanID is the id of a plan: the first 16 hex digits of the sha256 of its
// canonical JSON; "" for a plan that has none, which PutPlan explains.
func PlanID(p *Plan) string {
	data, err := Canonical(p)
	if err != nil {
		return ""
	}
	return sum(data)[:16]
}

// sum is the sha256 of data in hex.
func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
