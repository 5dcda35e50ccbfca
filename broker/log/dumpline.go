package log

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"unicode/utf8"
)

// DumpText is a line of a dump for people.
func DumpText(line []slog.Attr) string {
	var w strings.Builder
	for _, a := range line {
		value := a.Value.Any()
		if remark, ok := value.(bool); ok && !remark {
			continue
		} else if w.Len() > 0 {
			w.WriteByte(' ')
		}
		if value == true {
			w.WriteString(a.Key)
			continue
		}
		if a.Key == "" {
			fmt.Fprint(&w, value)
			continue
		}
		w.WriteString(a.Key + "=" + dumpValue(value))
	}
	return w.String()
}

// dumpValue writes a value so that the line can be taken apart at its blanks,
// but for those in quotes.
func dumpValue(v any) string {
	switch v := v.(type) {
	case []byte:
		switch {
		case v == nil:
			return "null"
		case utf8.Valid(v):
			return strconv.Quote(string(v))
		}
		return "base64:" + base64.StdEncoding.EncodeToString(v)
	case string:
		if v == "" || strings.ContainsAny(v, " \"\\\n\t") || !utf8.ValidString(v) {
			return strconv.Quote(v)
		}
		return v
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = dumpValue(v[i])
		}
		return "[" + strings.Join(parts, " ") + "]"
	case nil, bool, int64, uint64, float64:
		return fmt.Sprint(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return strconv.Quote(fmt.Sprint(v))
	}
	return string(b)
}

// DumpJSON is a line of a dump as one object. Bytes are text where they are
// UTF-8, else {"base64": …}; null stays null. A line of text is {"line": …}.
func DumpJSON(line []slog.Attr) ([]byte, error) {
	b := []byte{'{'}
	for i, a := range line {
		if i > 0 {
			b = append(b, ',')
		}
		key := a.Key
		if key == "" {
			key = "line"
		}
		for _, v := range []any{key, dumpable(a.Value.Any())} {
			text, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			b = append(append(b, text...), ':')
		}
		b = b[:len(b)-1]
	}
	return append(b, '}'), nil
}

// dumpable makes bytes presentable in JSON.
func dumpable(v any) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case v == nil:
			return nil
		case utf8.Valid(v):
			return string(v)
		}
		return map[string]string{"base64": base64.StdEncoding.EncodeToString(v)}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = dumpable(v[i])
		}
		return out
	}
	return v
}
