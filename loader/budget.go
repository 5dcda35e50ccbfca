package loader

import "sawlog/formats"

// How the memory of a task is divided. The figures are measured (TestSoakTaskMemory
// of engine/local holds the peak of a task below its memory and 64 MiB, which are
// the program itself and the collector's slack), and erring on the high side
// costs only a sort.
const (
	leafBytes       = 384     // of a leaf in empty columns
	columnSlack     = 2       // columns grow by doubling
	writerLeafBytes = 8 << 10 // of a leaf in an open writer, besides its pages
	pageSlack       = 5       // of a page's limit: values, levels, compressed, and all doubled as they grow
	tableSlack      = 8       // of a dictionary's bytes, its hash table
	fetchesHeld     = 4       // read ahead, being read, arriving, not yet collected
)

// fetchBytes is how much a task fetches at a time.
func fetchBytes(asked int, memory int64) int {
	if asked <= 0 {
		asked = defaultFetch
	}
	return max(min(asked, int(memory/32)), 16<<10)
}

// directLimit is what open files may take together.
func directLimit(memory int64, fetch int) int64 {
	return max((memory-fetchesHeld*int64(fetch))*6/10, 0)
}

// writerBytes is what an open writer takes with that many decoded bytes in its
// row group.
func writerBytes(leaves, group, page, dict int64) int64 {
	return leaves*writerLeafBytes + group + min(3*group, pageSlack*leaves*page) + min(group, leaves*dict)*tableSlack
}

// besides is what all files but the largest may always take.
func besides(memory int64) int64 { return memory / 16 }

// sortBytes is how much is sorted in memory at a time.
func sortBytes(memory int64) int { return int(memory / 6) }

// pagesHeld is what finished pages of one file may take before they wait on local
// disk for the end of their row group; 0 = any number, where nobody bounds memory.
func pagesHeld(memory int64) int64 { return memory / 8 }

// leastMemory is what a task needs to write even one file.
func leastMemory(s *formats.Schema, w *Writer) int64 {
	leaves := int64(len(s.Leaves()))
	return w.GroupBytes/2 + leaves*(writerLeafBytes+leafBytes+(pageSlack-1)*w.PageBytes)
}

func tooLittle(memory, least int64) *Error {
	return fail(ExitConflict, "memory of %d bytes is too little for one file of this schema, it takes %d", memory, least).
		hint("give more --memory, or run fewer tasks at a time with --parallelism")
}
