package formats

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

// zoneinfo is the tz database in the form the Go distribution ships it. It is
// our own copy, so that neither the machine nor the Go release changes what an
// hour is.
//
//go:embed zoneinfo.zip
var zoneinfo []byte

// zones is its directory, of hundreds of zones.
var zones = sync.OnceValues(func() (*zip.Reader, error) {
	return zip.NewReader(bytes.NewReader(zoneinfo), int64(len(zoneinfo)))
})

// LoadZone finds a time zone by its exact IANA name, in the embedded data only,
// and gives a hash of that zone's data.
func LoadZone(name string) (zone *time.Location, hash string, err error) {
	db, err := zones()
	if err != nil {
		return nil, "", fmt.Errorf("embedded zone data: %w", err)
	}
	if !fs.ValidPath(name) || name == "." {
		return nil, "", fmt.Errorf("unknown time zone %q", name)
	}
	f, err := db.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", fmt.Errorf("unknown time zone %q", name)
	}
	if err != nil {
		return nil, "", fmt.Errorf("time zone %q: %w", name, err)
	}
	defer func() { _ = f.Close() }() // memory only
	data, err := io.ReadAll(f)
	if err != nil {
		return nil, "", fmt.Errorf("unknown time zone %q: %w", name, err)
	}
	zone, err = time.LoadLocationFromTZData(name, data)
	if err != nil {
		return nil, "", fmt.Errorf("time zone %q: %w", name, err)
	}
	sum := sha256.Sum256(data)
	return zone, hex.EncodeToString(sum[:8]), nil
}
