package loader

import (
	"os"
	"path/filepath"
	"testing"

	"sawlog/broker/record"
	"sawlog/loader/sink/local"
)

// A data set has a tree of its own: a new one in or around another is refused
// before anything is written, however its path is written; one beside it is not.
func TestDataSetIsAlone(t *testing.T) {
	r := newRig(t, 1)
	base, away := t.TempDir(), t.TempDir()
	r.src.log("views", 0).put(t, 1, record.None, lines(view(9, 0, "/a"))...)
	under := func(root string) {
		t.Helper()
		s, err := local.Open("file://" + root)
		if err != nil {
			t.Fatal(err)
		}
		r.d.Sink, r.spec.Root = s, s.Root()
		r.d.Engine = &InProcess{Cluster: r.src, Sink: s, Logger: r.d.Logger, Spool: t.TempDir()}
	}
	home := filepath.Join(base, "w", "views")
	under(home)
	r.load(PlanAsk{})
	if err := os.Symlink(filepath.Join(home, "dt=2026-11-29"), filepath.Join(away, "link")); err != nil {
		t.Fatal(err)
	}
	for root, word := range map[string]string{
		filepath.Join(home, "sub"):                    "lies in the data set of file://" + home,
		filepath.Join(home, "a", "b", "c", "d"):       "lies in the data set of file://" + home,
		filepath.Join(home, "dt=2026-11-29", "hr=09"): "lies in the data set of file://" + home,
		filepath.Join(away, "link", "new"):            "lies in the data set of file://" + home,
		filepath.Join(base, "w"):                      "holds the data set of file://" + home,
		base:                                          "holds the data set of file://" + home,
	} {
		under(root)
		before := tree(t, r.d.Sink, "")
		_, _, err := r.d.Plan(t.Context(), &r.spec, PlanAsk{Replay: true})
		exits(t, err, ExitConflict, word)
		if after := tree(t, r.d.Sink, ""); len(after) != len(before) {
			t.Errorf("%s: %v", root, after)
		}
	}
	for _, root := range []string{filepath.Join(base, "w", "views2"), filepath.Join(base, "x", "views")} {
		under(root)
		r.load(PlanAsk{})
		r.sound()
	}
	under(home) // it goes on
	r.src.log("views", 0).put(t, 1, record.None, lines(view(10, 0, "/b"))...)
	r.load(PlanAsk{})
	r.sound()
}
