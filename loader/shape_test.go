package loader

import (
	"fmt"
	"path"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/broker/record"
)

// TestManySmallPartitions loads a thousand partitions with next to nothing in
// each: they are packed into one split, which makes a file an hour and asks for
// the leaders of all of them at once.
func TestManySmallPartitions(t *testing.T) {
	const partitions = 1000
	r := newRig(t, partitions)
	for p := range int32(partitions) {
		r.src.log("views", p).put(t, 2, record.None, lines(view(9+int(p)%2, int(p)%60, fmt.Sprint("/", p)), view(11, 0, "/all"))...)
	}
	asked := 0
	r.src.refuse = func(req kmsg.Request) error {
		if _, ok := req.(*kmsg.MetadataRequest); ok {
			asked++
		}
		return nil
	}
	p, v := r.plan(PlanAsk{})
	if len(v.Ranges) != partitions || len(p.Splits) != 1 {
		t.Fatalf("%d ranges in %d splits", len(v.Ranges), len(p.Splits))
	}
	out, err := r.run(p)
	if err != nil || out.Rows != 2*partitions {
		t.Fatalf("%+v, %v", out, err)
	}
	if asked > 10 {
		t.Errorf("the topic was asked about %d times", asked)
	}
	files := map[string]int{}
	for _, f := range r.ledger().Fold().All() {
		files[path.Dir(f.Path)]++
	}
	for dir, n := range files {
		if n > 2 {
			t.Errorf("%d files in %s", n, dir)
		}
	}
	if len(files) != 3 {
		t.Errorf("files %v", files)
	}
	r.sound()
}
