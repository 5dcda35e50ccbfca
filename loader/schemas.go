package loader

import (
	"context"
	"errors"
	"slices"

	"sawlog/formats"
	"sawlog/formats/registry"
)

// The planner alone asks the registry: the plan holds every schema its records
// need, so tasks, reruns and other engines have no need of one, and what is
// registered later changes nothing. A task that meets an id the plan has not
// reports it as it does a path, and the next revision of the plan has it.

// openRegistry prepares the client of a job's registry.
func openRegistry(r *formats.Registry) (*registry.Client, error) {
	c, err := registry.New(registry.Config{URLs: r.URLs, User: r.User, PasswordFile: r.PasswordFile, CAFile: r.CAFile})
	if err != nil {
		return nil, &Error{Code: ExitUsage, Err: err}
	}
	return c, nil
}

// registryError gives a registry's errors their exit codes.
func registryError(err error, r *formats.Registry) error {
	e := &Error{Code: ExitUnavailable, Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, registry.ErrUnavailable):
	case errors.Is(err, registry.ErrAuth):
		e.Code = ExitAuth
	case errors.Is(err, registry.ErrUnusable):
		e.Code = ExitConflict
		return e.hint("decode.value, or the subject, is another than the one meant; or register a schema that can be read")
	case errors.Is(err, registry.ErrNotFound):
		e.Code = ExitNotFound
		return e.hint("register the schema, or name its subject under decode.registry: {url: %s, subject: NAME}", r.URLs[0])
	default:
		e.Code = ExitFailed
	}
	return e
}

// askRegistry asks for what the columns of a spec are made of and for
// all that the subject's values were written with so far.
func askRegistry(ctx context.Context, s *Spec) error {
	o := &s.Decode
	if o.Registry == nil || o.Schema != nil {
		return nil
	}
	subject := o.Registry.Subject
	if subject == "" {
		if len(s.Topics) != 1 {
			return fail(ExitUsage, "decode.registry: several topics have several subjects: name one as subject")
		}
		subject = s.Topics[0] + "-value"
	}
	c, err := openRegistry(o.Registry)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.Schema, err = c.Latest(ctx, o.Value, subject); err != nil {
		return registryError(err, o.Registry)
	}
	if o.Writers, err = c.All(ctx, o.Value, subject); err != nil {
		return registryError(err, o.Registry)
	}
	o.Writers = sortedWriters(o.Writers)
	return nil
}

// writersOf asks for the schemas of ids.
func writersOf(ctx context.Context, o *formats.Options, ids []uint32) ([]formats.WireSchema, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	c, err := openRegistry(o.Registry)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out []formats.WireSchema
	for _, id := range ids {
		w, err := c.Writer(ctx, o.Value, id)
		if err != nil {
			return nil, registryError(err, o.Registry)
		}
		out = append(out, w)
	}
	return out, nil
}

// sortedWriters orders schemas by id and has each once.
func sortedWriters(w []formats.WireSchema) []formats.WireSchema {
	w = slices.Clone(w)
	slices.SortFunc(w, func(a, b formats.WireSchema) int { return int(int64(a.ID) - int64(b.ID)) })
	return slices.CompactFunc(w, func(a, b formats.WireSchema) bool { return a.ID == b.ID })
}

// met are the ids that splits reported.
func met(results []*Result) (ids []uint32) {
	for _, r := range results {
		if r.Unknown != nil {
			ids = append(ids, r.Unknown.Schemas...)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
