package formats

// mapEntry is an entry of a map that is being read: its key and where its value
// is, as the decoder counts.
type mapEntry struct {
	key []byte
	at  int
}

// fewKeys is up to how many keys are compared each with each.
const fewKeys = 16

// lastWins drops the entries whose key comes again, in place, and counts them.
// keys is for large maps, made when it is needed.
func lastWins(entries []mapEntry, keys *map[string]int) (kept []mapEntry, twice int64) {
	kept = entries[:0]
	many := len(entries) > fewKeys
	if many {
		if *keys == nil {
			*keys = map[string]int{}
		}
		clear(*keys)
		for i := range entries {
			(*keys)[string(entries[i].key)] = i
		}
	}
	for i := range entries {
		again := many && (*keys)[string(entries[i].key)] != i
		for j := i + 1; !many && j < len(entries) && !again; j++ {
			again = string(entries[i].key) == string(entries[j].key)
		}
		if again {
			twice++
		} else {
			kept = append(kept, entries[i])
		}
	}
	return kept, twice
}
