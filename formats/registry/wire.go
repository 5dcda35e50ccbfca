package registry

import (
	"context"
	"errors"
	"fmt"

	"sawlog/formats"
	"sawlog/formats/protobuf"
)

// types are the names that registries have for the formats of a value.
var types = map[string]string{"avro": "AVRO", "protobuf": "PROTOBUF"}

// Latest is the schema that a subject's values have now, as a plan holds it.
func (c *Client) Latest(ctx context.Context, value, subject string) (*formats.WireSchema, error) {
	s, err := c.Version(ctx, subject, 0)
	if err != nil {
		return nil, fmt.Errorf("subject %s: %w", subject, err)
	}
	w, err := c.wire(ctx, value, s)
	if err != nil {
		return nil, fmt.Errorf("subject %s: %w", subject, err)
	}
	if w.Unknown != "" {
		return nil, fmt.Errorf("%w: subject %s: schema id %d: %s", ErrUnusable, subject, w.ID, w.Unknown)
	}
	return &w, nil
}

// All are the schemas of a subject's versions.
func (c *Client) All(ctx context.Context, value, subject string) ([]formats.WireSchema, error) {
	numbers, err := c.Versions(ctx, subject)
	if err != nil {
		return nil, fmt.Errorf("subject %s: %w", subject, err)
	}
	var out []formats.WireSchema
	for _, n := range numbers {
		s, err := c.Version(ctx, subject, n)
		if errors.Is(err, ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, fmt.Errorf("subject %s: %w", subject, err)
		}
		w, err := c.wire(ctx, value, s)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// Writer is the schema of an id that a record names. What the registry has not,
// or has in another format, is Unknown and no error: the record is bad.
func (c *Client) Writer(ctx context.Context, value string, id uint32) (formats.WireSchema, error) {
	s, err := c.ByID(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return formats.WireSchema{ID: id, Unknown: "the registry has no such schema"}, nil
	}
	if err != nil {
		return formats.WireSchema{}, fmt.Errorf("schema id %d: %w", id, err)
	}
	return c.wire(ctx, value, s)
}

func (c *Client) wire(ctx context.Context, value string, s *Schema) (formats.WireSchema, error) {
	w := formats.WireSchema{ID: s.ID}
	kind := s.Type
	if kind == "" {
		kind = "AVRO"
	}
	if kind != types[value] {
		w.Unknown = fmt.Sprintf("is %s, not %s", kind, types[value])
		return w, nil
	}
	refs, err := c.References(ctx, s)
	if errors.Is(err, ErrNotFound) {
		w.Unknown = err.Error()
		return w, nil
	}
	if err != nil {
		return w, err
	}
	if value == "protobuf" {
		return compiled(w, s, refs), nil
	}
	for _, ref := range refs {
		w.Text = append(w.Text, ref.Text)
	}
	w.Text = append(w.Text, s.Text)
	return w, nil
}

// compiled is a Protobuf schema with all that it imports.
func compiled(w formats.WireSchema, s *Schema, refs []Named) formats.WireSchema {
	texts := map[string]string{}
	for _, ref := range refs {
		texts[ref.Name] = ref.Text
	}
	name := fmt.Sprintf("schema-id-%d.proto", s.ID)
	texts[name] = s.Text
	set, err := protobuf.CompileText(texts, name)
	if err != nil {
		w.Unknown = err.Error()
		return w
	}
	w.Text = []string{set}
	return w
}
