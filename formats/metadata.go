package formats

// MetadataColumns are the columns that come from the message itself.
var MetadataColumns = [...]string{"_topic", "_partition", "_offset", "_timestamp", "_key", "_headers", "_tombstone"}

// Where they stand in MetadataColumns.
const (
	metaTopic = iota
	metaPartition
	metaOffset
	metaTimestamp
	metaKey
	metaHeaders
	metaTombstone
)

// DefaultMetadata are the metadata columns of a data set that asks for none.
var DefaultMetadata = [...]string{"_partition", "_offset"}

// Metadata says that the field takes its value from the message.
func (f *Field) Metadata() bool {
	if len(f.From) > 0 {
		return false
	}
	for _, name := range MetadataColumns {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Required says that the field never holds a null.
func (f *Field) Required() bool {
	return f.Metadata() && f.Name != "_timestamp" && f.Name != "_key" && f.Name != "_headers"
}

// Keys is the key path of the field in the record.
func (f *Field) Keys() []string {
	if len(f.From) == 0 {
		return []string{f.Name}
	}
	return f.From
}
