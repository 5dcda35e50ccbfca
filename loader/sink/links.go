package sink

import "path/filepath"

// Followed is where the links in a path of this machine lead, as far as it is there.
func Followed(dir string) string {
	for head, tail := dir, ""; ; head, tail = filepath.Dir(head), filepath.Join(filepath.Base(head), tail) {
		if found, err := filepath.EvalSymlinks(head); err == nil {
			return filepath.Join(found, tail)
		}
		if head == filepath.Dir(head) {
			return dir
		}
	}
}
