package log

import (
	"path"
	"sync"
)

// remover deletes the folders of deleted logs in the background, one after the
// other: unlinking gigabytes takes seconds. What is left at the end of the run
// the next start deletes.
type remover struct {
	mu      sync.Mutex
	folders []string
	running bool
	stopped bool
	wg      sync.WaitGroup
}

// soon has folders deleted.
func (r *remover) soon(d *Disk, folders []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.folders = append(r.folders, folders...)
	if !r.running && !r.stopped && len(r.folders) > 0 {
		r.running = true
		r.wg.Go(func() { r.run(d) })
	}
}

func (r *remover) run(d *Disk) {
	for {
		folder, ok := r.next()
		if !ok {
			return
		}
		if err := d.fs.RemoveAll(path.Join(d.dir, folder)); err != nil {
			d.config.Logger.Error("a deleted log's folder can't be removed; the next start tries again", "folder", folder, "err", err)
		}
	}
}

func (r *remover) next() (folder string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.folders) == 0 || r.stopped {
		r.running = false
		return "", false
	}
	folder = r.folders[0]
	r.folders = r.folders[1:]
	return folder, true
}

// close ends the work after the present folder.
func (r *remover) close() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.wg.Wait()
}
