package loader

import "sawlog/formats"

// quarantine keeps the bad records of a split, in (topic, partition, offset)
// order, as one file. It is made when the first one comes.
type quarantine struct {
	t    *task
	file *dataFile
}

// add takes a copy of a bad record.
func (q *quarantine) add(m *formats.Message, bad *formats.BadRecord) error {
	if q.file == nil {
		q.file = q.t.newFile(formats.QuarantineSchema(), quarantineKey)
	}
	q.file.cols.AppendQuarantine(m, bad)
	return q.file.cut()
}

// drop forgets the file.
func (q *quarantine) drop() {
	if q.file != nil {
		q.file.drop()
		q.file = nil
	}
}
