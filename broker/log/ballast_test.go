package log

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sawlog/broker/record"
	"sawlog/broker/vfs"
)

// fullDisk refuses all that takes space, but for what fits where the ballast was.
type fullDisk struct {
	full    atomic.Bool
	ballast atomic.Bool // its file is there
}

func (f *fullDisk) inject(op vfs.Op, name string) error {
	ballast := strings.HasSuffix(name, ballastName)
	switch {
	case op == vfs.OpRemove && ballast:
		f.ballast.Store(false)
	case op == vfs.OpAllocate && ballast && !f.full.Load():
		f.ballast.Store(true)
	}
	switch op {
	case vfs.OpAllocate, vfs.OpWrite, vfs.OpCreate, vfs.OpMkdir, vfs.OpRename:
		if f.full.Load() && (f.ballast.Load() || ballast) {
			return syscall.ENOSPC
		}
	}
	return nil
}

// onFullDisk opens a disk with a ballast on which time is as now tells.
func onFullDisk(t *testing.T, now *time.Time) (*vfs.Mem, *fullDisk, *Disk, *Log) {
	t.Helper()
	f := &fullDisk{}
	fs := vfs.NewMem()
	fs.Inject(f.inject)
	c := testDisk()
	c.BallastBytes = 64 << 20
	c.Now = func() time.Time { return *now }
	d, err := OpenDisk(fs, "data", c)
	must(t, err)
	l, err := d.Create(testTP, testID, small())
	must(t, err)
	return fs, f, d, l
}

// TestBallast: on a full disk the broker's own records are still written, and
// clients only once there is room for the ballast again.
func TestBallast(t *testing.T) {
	now := time.UnixMilli(testNow)
	fs, f, d, l := onFullDisk(t, &now)
	if !f.ballast.Load() {
		t.Fatal("no ballast on a disk with room")
	}
	fill(t, l, 100)
	client := func() error {
		_, err := l.Append([]record.Batch{batch(t, int(l.End()), 5)}, Append{Epoch: max(l.Epoch(), 1), Now: testNow})
		return err
	}
	f.full.Store(true)
	var err error
	for n := 0; err == nil && n < 10_000; n++ {
		err = client()
	}
	if !errors.Is(err, ErrNoSpace) || f.ballast.Load() {
		t.Fatalf("%v; ballast there: %v", err, f.ballast.Load())
	}
	end := l.End()
	if err := client(); !errors.Is(err, ErrNoSpace) || l.End() != end {
		t.Fatalf("the ballast's room went to a client: %v", err)
	}
	if _, err := l.Append([]record.Batch{batch(t, int(end), 5)}, Append{Epoch: 1, Now: testNow, Internal: true}); err != nil {
		t.Fatalf("the broker's own record: %v", err)
	}
	must(t, d.Assign([]Assignment{{l, 7}}))
	must(t, d.Tick(now))
	must(t, d.SetBrokerEpoch(9))
	if values, err := readAll(t, l, 0); err != nil || len(values) != int(l.End()) {
		t.Fatalf("%d values, %v", len(values), err)
	}
	must(t, l.DeleteBefore(60))

	f.full.Store(false)
	if err := client(); !errors.Is(err, ErrNoSpace) {
		t.Fatalf("within the second of the last try: %v", err)
	}
	now = now.Add(ballastEvery)
	must(t, client())
	if !f.ballast.Load() {
		t.Fatal("clients write, but the ballast is not back")
	}
	select {
	case err := <-d.Failed():
		t.Fatalf("a full disk failed the directory: %v", err)
	default:
	}
	must(t, d.Close())
	d, l = reopen(t, fs)
	if !d.CleanStart() || l.Start() != 60 || l.Epoch() != 7 {
		t.Fatalf("clean %v, start %d, epoch %d", d.CleanStart(), l.Start(), l.Epoch())
	}
	must(t, d.Close())
}

// TestStartOnFullDisk: the ballast of the run before lets a start through, after
// a stop as after a kill.
func TestStartOnFullDisk(t *testing.T) {
	for _, clean := range []bool{true, false} {
		now := time.UnixMilli(testNow)
		fs, f, d, l := onFullDisk(t, &now)
		fill(t, l, 300)
		if clean {
			must(t, d.Close())
		} else {
			fs = fs.CrashClone(nil)
			fs.Inject(f.inject)
		}
		f.full.Store(true)
		c := testDisk()
		c.BallastBytes = 64 << 20
		d, err := OpenDisk(fs, "data", c)
		must(t, err)
		l, _ = d.Log(testTP, testID)
		if values, err := readAll(t, l, 0); err != nil || len(values) != 300 || f.ballast.Load() {
			t.Fatalf("clean %v: %d values, %v; ballast %v", clean, len(values), err, f.ballast.Load())
		}
		must(t, d.Close())
	}
}

// TestNoSpaceAnywhere fills the disk for one kind of file at a time, without
// ballast: nothing but appends is refused, nothing is lost, and it goes on.
func TestNoSpaceAnywhere(t *testing.T) {
	for _, kind := range []string{
		logSuffix, indexSuffix, timeSuffix, snapshotSuffix, epochsName, checkpointName, runningName, metaName, partitionName, "",
	} {
		t.Run(kind, func(t *testing.T) {
			c := small()
			c.IndexInterval = 1
			fs, d, l := onMem(t, c)
			full := false
			fs.Inject(func(op vfs.Op, name string) error {
				name = strings.TrimSuffix(name, vfs.TempSuffix)
				switch op {
				case vfs.OpAllocate, vfs.OpCreate, vfs.OpMkdir:
				case vfs.OpWrite:
					if full && strings.HasSuffix(name, kind) {
						return &vfs.PartialWrite{N: 3, Err: syscall.ENOSPC}
					}
				default:
					return nil
				}
				if full && strings.HasSuffix(name, kind) {
					return syscall.ENOSPC
				}
				return nil
			})
			seq, epoch := int32(0), l.Epoch()
			acked := int32(0)
			step := func() {
				epoch++
				if err := d.Assign([]Assignment{{l, epoch}}); err != nil && !errors.Is(err, ErrNoSpace) {
					t.Fatal(err)
				}
				for range 60 {
					b := producedBatch(t, int(seq), 5, 3, 0, seq)
					out, err := l.Append([]record.Batch{b}, Append{Epoch: max(l.Epoch(), 0), Now: testNow})
					if err == nil && out[0].First == l.End()-5 {
						seq += 5
						acked = seq
					} else if !errors.Is(err, ErrNoSpace) {
						t.Fatalf("append: %+v, %v", out, err)
					}
				}
				_ = d.Tick(time.UnixMilli(testNow + 90_000)) // says what there was no room for
				_ = d.SetMeta(Meta{ClusterID: "c", NodeID: 1})
				_ = d.SetBrokerEpoch(3)
				_ = l.DeleteBefore(l.Start() + 7)
			}
			step()
			full = true
			step()
			values, err := readAll(t, l, l.Start())
			must(t, err)
			wantValues(t, values, int(l.Start()), int(acked))
			full = false
			step()
			select {
			case err := <-d.Failed():
				t.Fatalf("a full disk failed the directory: %v", err)
			default:
			}
			must(t, d.Close())
			d, l = reopen(t, fs)
			if !d.CleanStart() || l.End() != 0 && int32(l.End()) != acked {
				t.Fatalf("clean %v, end %d, acknowledged %d", d.CleanStart(), l.End(), acked)
			}
			values, err = readAll(t, l, l.Start())
			must(t, err)
			wantValues(t, values, int(l.Start()), int(acked))
			if got := tryProduce(t, l, 3, 0, seq-5); !strings.HasPrefix(got, "dup") {
				t.Fatalf("retry: %s", got)
			}
			must(t, d.Close())
		})
	}
}

// TestNothingStaysRelieved: after a start on which files were opened to be
// relieved, appends go to the disk as they do elsewhere.
func TestNothingStaysRelieved(t *testing.T) {
	now := time.UnixMilli(testNow)
	fs, _, _, l := onFullDisk(t, &now)
	fill(t, l, 300)
	killed := fs.CrashClone(nil)
	d, l := reopen(t, killed)
	if n := d.files.count(); n != 0 {
		t.Fatalf("%d files are open after the start", n)
	}
	fill(t, l, 310)
	if got, want := fmt.Sprintf("%T", l.view.active().data.file), "*vfs.memFile"; got != want {
		t.Fatalf("appends go through a %s", got)
	}
	must(t, d.Close())
}
