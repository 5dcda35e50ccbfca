//go:build race

package log

// raced tells that the race detector is on, under which pools drop things and
// allocations cannot be counted.
const raced = true
