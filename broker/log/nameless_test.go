package log

import (
	"strings"
	"testing"
	"time"

	"sawlog/broker/vfs"
	"sawlog/offsets"
)

const testMetadata = "data/clicks-0/" + partitionName

// TestTopicIDMends: any one flipped bit of partition.metadata is put right, and
// a file that is cut off behind the id is still read.
func TestTopicIDMends(t *testing.T) {
	good := encodePartition(testID)
	for i := range 8 * len(good) {
		bent := append([]byte(nil), good...)
		bent[i/8] ^= 1 << (i % 8)
		id, _, err := decodePartition(bent)
		if err != nil {
			id, err = mendPartition(bent)
		}
		if err != nil || id != testID {
			t.Fatalf("bit %d: %s, %v", i, id, err)
		}
	}
	lines := strings.SplitAfter(string(good), "\n")
	for cut := len(lines[0]) + len(lines[1]) - 1; cut < len(good); cut++ {
		if id, _, err := decodePartition(good[:cut]); err != nil || id != testID {
			t.Fatalf("cut at %d: %s, %v", cut, id, err)
		}
	}
	bent := append([]byte(nil), good...)
	bent[22] ^= 3
	bent[30] ^= 1
	if id, _, err := decodePartition(bent); err == nil {
		t.Fatalf("three wrong bits: %s", id)
	}
	if id, err := mendPartition(bent); err == nil {
		t.Fatalf("three wrong bits mend to %s", id)
	}
	// What Kafka wrote, and what was written before there was a checksum.
	if id, sealed, err := decodePartition([]byte(lines[0] + lines[1])); err != nil || sealed || id != testID {
		t.Fatalf("without checksum: %s, %v, %v", id, sealed, err)
	}

	fs, d, l := onMem(t, small())
	fill(t, l, 20)
	must(t, d.Close())
	change(t, fs, testMetadata, func(b []byte) []byte { b[25] ^= 8; return b })
	d, l = reopen(t, fs)
	if l.End() != 20 {
		t.Fatalf("end %d", l.End())
	}
	if b, err := vfs.ReadFile(fs, testMetadata); err != nil || string(b) != string(good) {
		t.Fatalf("%q, %v", b, err)
	}
	must(t, d.Close())
}

// TestLostTopicID: a folder whose id is lost waits for the topic of its name,
// and is taken only by one that this directory has known.
func TestLostTopicID(t *testing.T) {
	another, near := offsets.TopicID{9, 9}, testID
	near[4] ^= 0x20
	unsealed := func(id offsets.TopicID) string {
		return string(encodePartition(id)[:len("version: 0\ntopic_id: ")+23])
	}
	for name, c := range map[string]struct {
		text    string
		clean   bool
		made    offsets.TopicID // by whom the log is made again
		adopted bool
	}{
		"emptied":                     {"", true, testID, true},
		"emptied, killed":             {"", false, testID, true},
		"rubbish":                     {"version: 0\ntopic_id: nonsense\n", true, testID, true},
		"a bent id without checksum":  {unsealed(near), true, testID, true},
		"a topic made after that one": {"", true, another, false},
	} {
		t.Run(name, func(t *testing.T) {
			fs, d, l := onMem(t, small())
			fill(t, l, 20)
			must(t, l.Flush())
			must(t, d.checkpoint())
			if c.clean {
				must(t, d.Close())
			} else {
				fs = fs.CrashClone(nil)
			}
			must(t, vfs.Replace(fs, testMetadata, []byte(c.text)))
			d = openTest(t, fs, "data")
			if n := len(d.Logs()); n != 0 {
				t.Fatalf("%d logs without id", n)
			}
			l, err := d.Create(testTP, c.made, small())
			must(t, err)
			want := offsets.Offset(0)
			if c.adopted {
				want = 20
			}
			if l.End() != want {
				t.Fatalf("end %d, want %d", l.End(), want)
			}
			_, err = fs.Stat("data/" + asideName("clicks-0", testNow, straySuffix))
			if (err == nil) == c.adopted {
				t.Fatalf("adopted %v, put aside: %v", c.adopted, err)
			}
			fill(t, l, 30)
			must(t, d.Close())
			d = openTest(t, fs, "data")
			if l, ok := d.Log(testTP, c.made); !ok || l.End() != 30 {
				t.Fatalf("after a restart: %v", ok)
			}
			must(t, d.Close())
		})
	}
}

// TestForeignFolder: a whole id of another topic is no damage.
func TestForeignFolder(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 20)
	must(t, d.Close())
	another := offsets.TopicID{9, 9}
	must(t, vfs.Replace(fs, testMetadata, encodePartition(another)[:len("version: 0\ntopic_id: ")+23]))
	d = openTest(t, fs, "data")
	if l, ok := d.Log(testTP, another); !ok || l.End() != 20 {
		t.Fatalf("found %v", ok)
	}
	must(t, d.Close())
}

// TestUnclaimedFolders are put aside: at once without records, with some when
// nobody has asked for them.
func TestUnclaimedFolders(t *testing.T) {
	fs, d, l := onMem(t, small())
	fill(t, l, 20)
	must(t, d.Close())
	must(t, vfs.Replace(fs, testMetadata, nil))
	must(t, fs.MkdirAll("data/empty-3", 0o755))
	d = openTest(t, fs, "data")
	aside := "data/" + asideName("clicks-0", testNow, straySuffix)
	if _, err := fs.Stat("data/" + asideName("empty-3", testNow, straySuffix)); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Stat(aside); err == nil {
		t.Fatal("put aside before anybody could ask for it")
	}
	must(t, d.Tick(time.UnixMilli(testNow)))
	if _, err := fs.Stat(aside); err != nil {
		t.Fatal(err)
	}
	must(t, d.Close())
}
