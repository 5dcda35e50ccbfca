package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// Format is what -o names.
type Format string

// The formats every verb prints.
const (
	Table Format = "table"
	JSON  Format = "json"
	Lines Format = "jsonl"
)

// ParseFormat reads -o.
func ParseFormat(s string) (Format, error) {
	switch f := Format(s); f {
	case Table, JSON, Lines:
		return f, nil
	}
	return "", Errorf(Usage, "-o %q: want table, json or jsonl", s)
}

// Printer writes the data of one verb to Out and everything else to Err.
type Printer struct {
	Format Format
	Out    io.Writer
	Err    io.Writer
	Color  bool // colour on Err

	streams bool // the verb gives a list, element by element
	listed  bool // and one was printed
}

// Rows are rows under a heading, printed with aligned columns.
type Rows struct {
	Head []string
	Body [][]string
}

// Add appends a row; each cell is printed by %v.
func (r *Rows) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	r.Body = append(r.Body, row)
}

// Print writes v as JSON, or rows as a table, as the format says. A list in
// jsonl is a line for each element.
func (p *Printer) Print(v any, rows func() *Rows) error {
	switch p.Format {
	case JSON:
		enc := json.NewEncoder(p.Out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(v)
	case Lines:
		return p.lines(v)
	}
	return p.table(rows())
}

func (p *Printer) lines(v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, item := range list {
		if _, err := fmt.Fprintf(p.Out, "%s\n", item); err != nil {
			return err
		}
	}
	return nil
}

// Stream says that what the verb prints is a list, element by element: by Line,
// until End.
func (p *Printer) Stream() { p.streams = true }

// Line writes one element of a stream: the given text, a line of JSON, or with
// -o json an element of one list, on a line of its own.
func (p *Printer) Line(v any, text string) error {
	if p.Format == Table {
		_, err := fmt.Fprintln(p.Out, text)
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	before := ""
	if p.Format == JSON {
		before = ","
		if !p.listed {
			before = "["
		}
	}
	p.streams, p.listed = true, true
	_, err = fmt.Fprintf(p.Out, "%s%s\n", before, raw)
	return err
}

// End closes the list of a stream, however the verb ended: with -o json standard
// output holds one JSON value then.
func (p *Printer) End() error {
	if p.Format != JSON || !p.streams {
		return nil
	}
	text := "]\n"
	if !p.listed {
		text = "[]\n"
	}
	_, err := io.WriteString(p.Out, text)
	return err
}

func (p *Printer) table(r *Rows) error {
	w := tabwriter.NewWriter(p.Out, 0, 8, 2, ' ', 0)
	if len(r.Head) > 0 {
		if _, err := fmt.Fprintln(w, strings.Join(r.Head, "\t")); err != nil {
			return err
		}
	}
	for _, row := range r.Body {
		if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return w.Flush()
}

// Note writes a sentence for people to Err.
func (p *Printer) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(p.Err, format+"\n", args...) // standard error gone: nobody is left to tell
}

// Report writes an error to Err, as JSON when the data is JSON, and returns
// its exit code.
func (p *Printer) Report(err error) int {
	if err == nil {
		return OK
	}
	var quiet silent
	if errors.As(err, &quiet) {
		return int(quiet)
	}
	code, hint := Code(err), Advice(err)
	if p.Format != Table {
		raw, _ := json.Marshal(map[string]any{"code": code, "message": err.Error(), "hint": hint})
		p.Note("%s", raw)
		return code
	}
	head := "error:"
	if p.Color {
		head = "\x1b[31merror:\x1b[0m"
	}
	p.Note("%s %s", head, err)
	if hint != "" {
		p.Note("  try: %s", hint)
	}
	return code
}

// IsTerminal tells whether a writer is a terminal.
func IsTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// UseColor decides --color auto, always or never; NO_COLOR and TERM=dumb turn
// auto off.
func UseColor(choice string, w any) (bool, error) {
	switch choice {
	case "always":
		return true, nil
	case "never":
		return false, nil
	case "auto", "":
		return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && IsTerminal(w), nil
	}
	return false, Errorf(Usage, "--color %q: want auto, always or never", choice)
}

// Bytes prints a size in IEC units, for people only.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n), ""
	for _, s := range []string{"KiB", "MiB", "GiB", "TiB", "PiB"} {
		value /= unit
		suffix = s
		if value < unit {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", value, suffix)
}
