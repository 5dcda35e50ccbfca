package group

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/offsets"
)

// TestConcurrent: clients of all kinds at once while the partition moves away
// and comes back. Every request is answered exactly once, and an acknowledged
// commit is never missing from a later fetch.
func TestConcurrent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "offsets.db")
	synctest.Test(t, func(t *testing.T) {
		r := start(t, newFakeTopic(), path)
		p := r.PartitionFor("g")
		var wg sync.WaitGroup
		var mu sync.Mutex
		answered, asked, acked := 0, 0, 0
		count := func(n *int) {
			mu.Lock()
			*n++
			mu.Unlock()
		}
		for i := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 5))
				at := int64(0)
				for n := range 150 {
					time.Sleep(time.Duration(rnd.IntN(20)) * time.Millisecond)
					if code := r.commit(outsider("g"), "t", int32(i), int64(n+1)); code == "OK" {
						at = int64(n + 1)
						count(&acked)
					}
					if f := r.fetch("g", "t", int32(i)); f.ErrorCode == 0 && f.Offset < at {
						t.Errorf("acknowledged %d, fetched %d", at, f.Offset)
					}
				}
			})
		}
		for i := range 4 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(i), 6))
				id, generation := "", int32(-1)
				for range 100 {
					time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
					count(&asked)
					q := joinRequest(fmt.Sprint("members-", i%2), id, int16(rnd.IntN(10)))
					a := call(r.JoinGroup, q)
					count(&answered)
					id, generation = a.MemberID, a.Generation
					if a.ErrorCode == kerr.UnknownMemberID.Code || rnd.IntN(10) == 0 {
						id = ""
					}
					if a.ErrorCode == 0 {
						count(&asked)
						call(r.SyncGroup, syncRequest(q.Group, a.MemberID, generation, map[string]string{a.MemberID: "x"}))
						count(&answered)
					}
					call(r.ListGroups, kmsg.NewPtrListGroupsRequest())
					call(r.DescribeGroups, describeRequest(q.Group, "g"))
				}
			})
		}
		stop := make(chan struct{})
		var mover sync.WaitGroup
		mover.Go(func() {
			epoch := offsets.Epoch(1)
			for {
				select {
				case <-stop:
					return
				case <-time.After(300 * time.Millisecond):
				}
				for _, part := range []int32{p, r.PartitionFor("members-0")} {
					r.Resigned(part)
				}
				time.Sleep(20 * time.Millisecond)
				epoch++
				for _, part := range []int32{p, r.PartitionFor("members-0")} {
					r.topic.mu.Lock()
					r.topic.logs[part].epoch = epoch
					r.topic.mu.Unlock()
					r.Elected(part, epoch)
				}
				_ = r.Metrics()
			}
		})
		wg.Wait()
		close(stop)
		mover.Wait()
		r.stop()
		if asked != answered || asked < 400 || acked < 600 {
			t.Errorf("%d asked, %d answered, %d commits acknowledged", asked, answered, acked)
		}
	})
}
