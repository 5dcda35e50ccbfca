package loader

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// Whoever is asked to stop says what stands and what to do next, wherever it was:
// a verify, a rerun, an amend, a plan and a rewrite.
func TestStoppedSaysWhatStands(t *testing.T) {
	check := func(t *testing.T, err error, state string) {
		t.Helper()
		var e *Error
		if !errors.As(err, &e) || e.Code != ExitInterrupted || !errors.Is(err, context.Canceled) {
			t.Fatalf("error %v", err)
		}
		if !strings.Contains(err.Error(), state) || !strings.Contains(e.Hint, "the same command") {
			t.Errorf("%q; %q, want %q", err, e.Hint, state)
		}
	}
	t.Run("verify", func(t *testing.T) {
		s := memSink()
		src, l := ran(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		c, files := src.config(s), 0
		c.Check = func(r io.ReaderAt, size int64, file *File) error {
			if files++; files == 3 {
				cancel()
			}
			return checkRows(r, size, file)
		}
		if err := s.Remove(l.Fold().All()[0].Path); err != nil {
			t.Fatal(err)
		}
		l, err := OpenLedger(ctx, s, "", "", c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Verify(ctx, "")
		check(t, err, "nothing was changed; 4 of 12 files were read, with a problem so far: "+l.Fold().All()[0].Path)
	})
	for name, act := range map[string]func(ctx context.Context, l *Ledger) error{
		"rerun": func(ctx context.Context, l *Ledger) error { _, err := l.Rerun(ctx, "0"); return err },
		"amend": func(ctx context.Context, l *Ledger) error {
			_, err := l.Amend(ctx, "0", "amend-1", CommitOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := memSink()
			src, l := ran(t, s)
			before := tree(t, s, "", StagesDir)
			if err := s.Remove(l.Fold().All()[0].Path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			c := src.config(s)
			c.Remake = func(ctx context.Context, ask RemakeAsk) ([]*Result, error) {
				cancel()
				return nil, ctx.Err()
			}
			l, err := OpenLedger(ctx, s, "", "", c)
			if err != nil {
				t.Fatal(err)
			}
			check(t, act(ctx, l), "nothing was changed")
			after := tree(t, s, "", StagesDir)
			delete(before, l.Fold().All()[0].Path)
			sameTree(t, after, before)
		})
	}
	t.Run("plan", func(t *testing.T) {
		r := newRig(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := r.d.Plan(ctx, &r.spec, PlanAsk{})
		check(t, err, "nothing was changed")
	})
	t.Run("rewrite", func(t *testing.T) {
		r := small(t)
		before := r.content("path")
		p, err := r.d.PlanRewrite(t.Context(), RewriteAsk{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.d.Observe = func(e Event) {
			if e.Kind == "plan" {
				cancel()
			}
		}
		_, err = r.d.Run(ctx, p, RunAsk{Run: "rewrite-1"})
		check(t, err, "nothing was committed; plan "+PlanID(p)+" is open with 0 of")
		r.d.Observe = nil
		if after := r.content("path"); !slices.Equal(before, after) {
			t.Errorf("rows %v, were %v", after, before)
		}
	})
}
