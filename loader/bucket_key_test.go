package loader

import (
	"math/rand/v2"
	"testing"

	"sawlog/formats"
)

// TestKeyRemembers asks one bucketer for instants in any order, often close to
// each other and to jumps of the clock, and wants what a new one says of each.
func TestKeyRemembers(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/Sao_Paulo"} {
		for _, unit := range []string{UnitHour, UnitDay} {
			rule := Bucket{Unit: unit, Zone: zone, Path: "dt=%Y-%m-%d/hr=%H%z"}
			kept, err := newBucketer(rule)
			if err != nil {
				t.Fatal(err)
			}
			unused := *kept
			rnd := rand.New(rand.NewPCG(1, 2))
			at := int64(1_200_000_000_000_000)
			for range 3000 {
				switch rnd.IntN(4) {
				case 0:
					at = rnd.Int64N(3_000_000_000_000_000) - 1_000_000_000_000_000
				case 1:
					at += rnd.Int64N(7_200_000_000) - 3_600_000_000
				case 2:
					at = (at/1_800_000_000)*1_800_000_000 - rnd.Int64N(2)
				}
				fresh := unused
				if got, want := kept.Key(formats.Instant(at)), fresh.Key(formats.Instant(at)); got != want {
					t.Fatalf("%s of %s: instant %d has key %d, want %d", unit, zone, at, got, want)
				}
			}
		}
	}
}
