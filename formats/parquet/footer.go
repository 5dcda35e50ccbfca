package parquet

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// magic stands at both ends of a file.
const magic = "PAR1"

// createdBy names the writer in the footer. It changes with the profile and with
// nothing else.
func createdBy(profile int) string {
	return fmt.Sprintf("sawlog version 1 (build parquet-profile-%d)", profile)
}

// Field ids of the footer's Thrift structs (parquet.thrift of the format's
// specification).
const (
	fileSchemaID, fileRowsID, fileGroupsID, fileMetadataID, fileCreatedByID, fileOrdersID = 2, 3, 4, 5, 6, 7
	elementRepetitionID                                                                   = 3
	groupColumnsID, groupBytesID, groupRowsID                                             = 1, 2, 3
	groupOffsetID, groupCompressedID, groupOrdinalID                                      = 5, 6, 7
	chunkOffsetID, chunkMetadataID                                                        = 2, 3
	columnTypeID, columnEncodingsID, columnPathID                                         = 1, 2, 3
	columnCodecID, columnValuesID                                                         = 4, 5
	columnUncompressedID, columnCompressedID                                              = 6, 7
	columnDataPageID, columnDictPageID                                                    = 9, 11
	columnStatisticsID, columnEncodingStatsID                                             = 12, 13
)

// groupFacts is what the writer knows of a row group by itself.
type groupFacts struct {
	rows  int64
	stats []tValue // per leaf
	level []int64  // levels per leaf
}

// mendFooter takes arrow's footer and gives the one the file gets:
// PageEncodingStats and encodings in order (arrow lists a Go map), no
// repetition type on the root, total_byte_size uncompressed, our statistics,
// and metadata in order of its keys. It refuses a footer that does not agree
// with what was written: end is where the data ended.
func mendFooter(raw []byte, groups []groupFacts, metadata map[string]string, end int64) ([]byte, error) {
	footer, err := parseThrift(raw)
	if err != nil {
		return nil, err
	}
	if elements := footer.get(fileSchemaID); elements != nil && len(elements.list) > 0 {
		elements.list[0].unset(elementRepetitionID)
	}
	var rows int64
	listed := footer.get(fileGroupsID)
	if listed == nil || len(listed.list) != len(groups) {
		return nil, fmt.Errorf("footer lists other row groups than the %d written", len(groups))
	}
	at := int64(len(magic))
	for i := range groups {
		if at, err = mendGroup(&listed.list[i], &groups[i], at); err != nil {
			return nil, fmt.Errorf("row group %d: %w", i, err)
		}
		rows += groups[i].rows
	}
	if at != end {
		return nil, fmt.Errorf("footer ends the data at byte %d, written were %d", at, end)
	}
	if got := footer.int(fileRowsID); got != rows {
		return nil, fmt.Errorf("footer has %d rows, written were %d", got, rows)
	}
	footer.unset(fileMetadataID)
	if len(metadata) > 0 {
		pairs := tValue{kind: tList, elem: tStruct}
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			pair := tValue{kind: tStruct}
			pair.set(1, tBytes([]byte(key)))
			pair.set(2, tBytes([]byte(metadata[key])))
			pairs.list = append(pairs.list, pair)
		}
		footer.set(fileMetadataID, pairs)
	}
	footer.set(fileCreatedByID, tBytes([]byte(createdBy(1))))
	return footer.append(nil), nil
}

// mendGroup mends one row group whose data starts at at and gives its end.
func mendGroup(group *tValue, facts *groupFacts, at int64) (end int64, err error) {
	if got := group.int(groupRowsID); got != facts.rows {
		return 0, fmt.Errorf("footer has %d rows, written were %d", got, facts.rows)
	}
	columns := group.get(groupColumnsID)
	if columns == nil || len(columns.list) != len(facts.stats) {
		return 0, fmt.Errorf("footer has other columns than the %d written", len(facts.stats))
	}
	start := at
	var uncompressed int64
	for i := range columns.list {
		chunk := &columns.list[i]
		column := chunk.get(chunkMetadataID)
		if column == nil {
			return 0, fmt.Errorf("column %d: no metadata", i)
		}
		first := column.int(columnDataPageID)
		if dict := column.get(columnDictPageID); dict != nil {
			first = dict.n
		}
		if first != at || column.int(columnValuesID) != facts.level[i] {
			return 0, fmt.Errorf("column %d: footer has %d values at byte %d, written were %d at %d",
				i, column.int(columnValuesID), first, facts.level[i], at)
		}
		at += column.int(columnCompressedID)
		uncompressed += column.int(columnUncompressedID)
		sortEncodings(column)
		column.set(columnStatisticsID, facts.stats[i])
		chunk.set(chunkOffsetID, tInt(tI64, 0)) // deprecated; 0 as the specification asks
	}
	group.set(groupBytesID, tInt(tI64, uncompressed))
	group.set(groupOffsetID, tInt(tI64, start))
	group.set(groupCompressedID, tInt(tI64, at-start))
	return at, nil
}

func sortEncodings(column *tValue) {
	if encodings := column.get(columnEncodingsID); encodings != nil {
		slices.SortFunc(encodings.list, func(a, b tValue) int { return cmp.Compare(a.n, b.n) })
		encodings.list = slices.CompactFunc(encodings.list, func(a, b tValue) bool { return a.n == b.n })
	}
	if stats := column.get(columnEncodingStatsID); stats != nil {
		slices.SortFunc(stats.list, func(a, b tValue) int {
			return cmp.Or(cmp.Compare(a.int(1), b.int(1)), cmp.Compare(a.int(2), b.int(2)))
		})
	}
}

// cutTail takes the footer out of the end of a file as arrow writes it.
func cutTail(tail []byte) ([]byte, error) {
	n := len(tail) - 8
	if n < 0 || !bytes.HasSuffix(tail, []byte(magic)) || int(binary.LittleEndian.Uint32(tail[n:])) != n {
		return nil, fmt.Errorf("footer of %d bytes is not whole", len(tail))
	}
	return tail[:n], nil
}
