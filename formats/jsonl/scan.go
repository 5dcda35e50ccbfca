package jsonl

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sawlog/formats"
)

// Scan gives the rows of a file one by one, as columns of a schema: that of the
// file, or one with wider types and more columns (formats.Widens). Lines do not
// tell JSON text from a string, so a json column can't be scanned as a string.
type Scan struct {
	columns []*node
	lines   *bufio.Scanner
	done    func()
	texts   [][]byte // of the next row, by column; nil = the line has none
	read    bool     // texts are those of the next row
	row     int64    // given so far
	value   []byte   // scratch
}

// Scan begins to read the file as columns of a schema.
func (r *Reader) Scan(s *formats.Schema) (*Scan, error) {
	lines, done, err := scanner(r.file, r.size)
	if err != nil {
		return nil, err
	}
	columns := nodes(s.Tree())
	return &Scan{columns: columns, lines: lines, done: done, texts: make([][]byte, len(columns))}, nil
}

// Next appends the next row to columns of the schema; io.EOF after the last.
// After an error the columns hold part of a row.
func (s *Scan) Next(c *formats.Columns) error {
	if err := s.fill(); err != nil {
		return err
	}
	for i, n := range s.columns {
		if err := s.put(c, n, s.texts[i], 0); err != nil {
			return fmt.Errorf("jsonl: line %d: column %q: %w", s.row+1, n.Name, err)
		}
	}
	c.EndRow()
	s.read = false
	s.row++
	return nil
}

// Head is the value the next row has in a top-level column that is no struct,
// list or map, in PLAIN encoding; nil where it is null, io.EOF after the last
// row.
func (s *Scan) Head(column string) ([]byte, error) {
	if err := s.fill(); err != nil {
		return nil, err
	}
	for i, n := range s.columns {
		if n.Name != column || len(n.kids) > 0 {
			continue
		}
		if isNull(s.texts[i]) {
			return nil, nil
		}
		value, err := n.Type.AppendPlain(nil, s.texts[i])
		if err != nil {
			err = fmt.Errorf("jsonl: line %d: column %q: %w", s.row+1, column, err)
		}
		return value, err
	}
	return nil, fmt.Errorf("jsonl: no column %q", column)
}

// fill makes sure that texts are those of the next row.
func (s *Scan) fill() error {
	if s.read {
		return nil
	}
	if !s.lines.Scan() {
		if err := s.lines.Err(); err != nil {
			return fmt.Errorf("jsonl: after line %d: %w", s.row, err)
		}
		s.done()
		return io.EOF
	}
	if err := textsOf(s.texts, s.columns, s.lines.Bytes()); err != nil {
		return fmt.Errorf("jsonl: line %d: %w", s.row+1, err)
	}
	s.read = true
	return nil
}

// textsOf finds the text of each node in an object, which has them in their order.
func textsOf(texts [][]byte, nodes []*node, object []byte) error {
	clear(texts)
	next := 0
	return members(object, func(name, value []byte) error {
		for ; next < len(nodes); next++ {
			if n := nodes[next]; bytes.Equal(name, n.name[:len(n.name)-1]) {
				texts[next] = value
				next++
				return nil
			}
		}
		return fmt.Errorf("the file has a column %s and the schema has none", name)
	})
}

// isNull says that a line has no value.
func isNull(text []byte) bool { return text == nil || string(text) == "null" }

// put appends the entries a value has in the leaves of its node.
func (s *Scan) put(c *formats.Columns, n *node, text []byte, rep int16) error {
	if isNull(text) {
		if n.Def == 0 {
			return errors.New("is in every row and this one has none")
		}
		n.PutEmpty(c, n.Def-1, rep)
		return nil
	}
	at, first := rep, true
	entry := func() {
		if !first {
			at = n.Rep + 1
		}
		first = false
	}
	var err error
	switch n.Type.Kind {
	case formats.Struct:
		texts := make([][]byte, len(n.kids))
		if err := textsOf(texts, n.kids, text); err != nil {
			return err
		}
		for i, kid := range n.kids {
			if err := s.put(c, kid, texts[i], rep); err != nil {
				return err
			}
		}
		return nil
	case formats.List:
		err = elements(text, func(value []byte) error {
			entry()
			return s.put(c, n.kids[0], value, at)
		})
	case formats.Map:
		err = members(text, func(name, value []byte) error {
			entry()
			var key string
			if err := json.Unmarshal(name, &key); err != nil {
				return err
			}
			c.Put(n.kids[0].Lo, n.kids[0].Def, at, []byte(key))
			return s.put(c, n.kids[1], value, at)
		})
	default:
		if s.value, err = n.Type.AppendPlain(s.value[:0], text); err == nil {
			c.Put(n.Lo, n.Def, rep, s.value)
		}
		return err
	}
	if first && err == nil {
		n.PutEmpty(c, n.Def, rep)
	}
	return err
}
