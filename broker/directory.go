package broker

import (
	"fmt"
	"path/filepath"

	"sawlog/broker/log"
)

// ballastBytes is disk space kept for the metadata and group offsets when
// clients have filled the rest.
const ballastBytes = 64 << 20

// openDisk opens the data directory and gives it its id on first use.
func (b *Broker) openDisk() error {
	cleanMemory, cleanRate := b.config.cleanSettings()
	disk, err := log.OpenDisk(b.config.FS, b.config.Dir, log.DiskConfig{
		Logger:              b.config.Logger,
		MaxOpenFiles:        b.config.MaxOpenFiles,
		BootID:              b.config.BootID,
		BallastBytes:        ballastBytes,
		Hold:                b.hold,
		Committed:           b.committed,
		CleanMemory:         cleanMemory,
		CleanBytesPerSecond: cleanRate,
	})
	if err != nil {
		return err
	}
	b.disk = disk
	b.topics = newTopicSet(disk.Logs())
	meta := disk.Meta()
	if meta.DirectoryID != "" {
		return nil
	}
	if err := b.isNew(); err != nil {
		return err
	}
	meta.DirectoryID = randomID() // known before it joins, so that it is the same one each time it asks
	return disk.SetMeta(meta)
}

// isNew tells a new directory from one whose meta.properties is gone, which
// would pass for another node's, or found a cluster of its own.
func (b *Broker) isNew() error {
	metadata := filepath.Join(b.config.Dir, "controller")
	_, err := b.config.FS.Stat(metadata)
	if err != nil && len(b.topics.found) == 0 {
		return nil
	}
	return fmt.Errorf("broker: %s is gone, and the directory is not empty. Put it back from a copy, or move the whole directory away and start with an empty one: a node of several joins again with --join and its --node-id",
		filepath.Join(b.config.Dir, "meta.properties"))
}

// entered notes that the directory holds the cluster's metadata from now on.
func (b *Broker) entered() error {
	if b.disk.Meta().Entered {
		return nil
	}
	return b.disk.ChangeMeta(func(m *log.Meta) { m.Entered = true })
}
