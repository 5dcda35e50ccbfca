package parquet

import "sawlog/formats"

// Converted types of parquet.thrift, for readers that know no logical types.
const (
	convertedNone                                 = -1
	convertedUTF8, convertedMap, convertedList    = 0, 1, 3
	convertedDecimal, convertedDate               = 5, 6
	convertedMillis, convertedMicros              = 9, 10
	convertedJSON                                 = 19
	repetitionOptional                            = 1
	elementScaleID, elementPrecisionID            = 7, 8
	logicalString, logicalMap, logicalList        = 1, 2, 3
	logicalDecimal, logicalDate, logicalTimestamp = 5, 6, 8
	logicalJSON, logicalUUID                      = 12, 14
	rootName, listName, elementName, entriesName  = "schema", "list", "element", "key_value"
)

// emitSchema writes the schema elements, depth first; fileSchema says the same
// to arrow.
func emitSchema(e *emitter, s *formats.Schema) {
	n := 1
	for i := range s.Fields {
		n += elementsOf(s.Fields[i].Type)
	}
	e.list(fileSchemaID, tStruct, n)
	e.entry()
	e.text(elementNameID, rootName)
	e.int(elementChildrenID, tI32, int64(len(s.Fields)))
	e.close()
	for i := range s.Fields {
		f := &s.Fields[i]
		repetition := repetitionOptional
		if f.Required() {
			repetition = repetitionRequired
		}
		emitElement(e, f.Name, f.Type, repetition)
	}
}

// elementsOf counts the schema elements of a type.
func elementsOf(t *formats.Type) int {
	switch t.Kind {
	case formats.Struct:
		n := 1
		for i := range t.Fields {
			n += elementsOf(t.Fields[i].Type)
		}
		return n
	case formats.List:
		return 2 + elementsOf(t.Elem)
	case formats.Map:
		return 3 + elementsOf(t.Elem)
	default:
		return 1
	}
}

// group writes an element that has children.
func group(e *emitter, name string, repetition, children, converted int, logical int16) {
	e.entry()
	e.int(elementRepetitionID, tI32, int64(repetition))
	e.text(elementNameID, name)
	e.int(elementChildrenID, tI32, int64(children))
	if converted != convertedNone {
		e.int(elementConvertedID, tI32, int64(converted))
		e.open(elementLogicalID)
		e.empty(logical)
		e.close()
	}
	e.close()
}

func emitElement(e *emitter, name string, t *formats.Type, repetition int) {
	switch t.Kind {
	case formats.Struct:
		group(e, name, repetition, len(t.Fields), convertedNone, 0)
		for i := range t.Fields {
			emitElement(e, t.Fields[i].Name, t.Fields[i].Type, repetitionOptional)
		}
	case formats.List:
		group(e, name, repetition, 1, convertedList, logicalList)
		group(e, listName, repetitionRepeated, 1, convertedNone, 0)
		emitElement(e, elementName, t.Elem, repetitionOptional)
	case formats.Map:
		group(e, name, repetition, 1, convertedMap, logicalMap)
		group(e, entriesName, repetitionRepeated, 2, convertedNone, 0)
		emitElement(e, "key", &formats.Type{Kind: formats.String}, repetitionRequired)
		emitElement(e, "value", t.Elem, repetitionOptional)
	default:
		emitPrimitive(e, name, t, repetition)
	}
}

// physicalOf is the Parquet type of a store.
func physicalOf(s formats.Store) int64 {
	switch s {
	case formats.StoreBool:
		return physicalBool
	case formats.StoreInt32:
		return physicalInt32
	case formats.StoreInt64:
		return physicalInt64
	case formats.StoreFloat:
		return physicalFloat
	case formats.StoreDouble:
		return physicalDouble
	case formats.StoreFixed16:
		return physicalFixed
	default:
		return physicalBytes
	}
}

func emitPrimitive(e *emitter, name string, t *formats.Type, repetition int) {
	e.entry()
	store := t.Store()
	e.int(elementTypeID, tI32, physicalOf(store))
	if store == formats.StoreFixed16 {
		e.int(elementWidthID, tI32, 16)
	}
	e.int(elementRepetitionID, tI32, int64(repetition))
	e.text(elementNameID, name)
	converted, logical := convertedNone, int16(0)
	switch t.Kind {
	case formats.String:
		converted, logical = convertedUTF8, logicalString
	case formats.JSON:
		converted, logical = convertedJSON, logicalJSON
	case formats.Date:
		converted, logical = convertedDate, logicalDate
	case formats.UUID:
		logical = logicalUUID
	case formats.Decimal:
		converted, logical = convertedDecimal, logicalDecimal
	case formats.Timestamp:
		logical = logicalTimestamp
		if t.Unit != formats.Nanos && !t.Local {
			converted = convertedMillis + int(t.Unit)
		}
	}
	if converted != convertedNone {
		e.int(elementConvertedID, tI32, int64(converted))
	}
	if t.Kind == formats.Decimal {
		e.int(elementScaleID, tI32, int64(t.Scale))
		e.int(elementPrecisionID, tI32, int64(t.Precision))
	}
	if logical != 0 {
		e.open(elementLogicalID)
		emitLogical(e, t, logical)
		e.close()
	}
	e.close()
}

// emitLogical writes the one field of a LogicalType.
func emitLogical(e *emitter, t *formats.Type, logical int16) {
	switch t.Kind {
	case formats.Decimal:
		e.open(logical)
		e.int(1, tI32, int64(t.Scale))
		e.int(2, tI32, int64(t.Precision))
		e.close()
	case formats.Timestamp:
		e.open(logical)
		e.bool(1, !t.Local)
		e.open(2)
		e.empty(int16(t.Unit) + 1)
		e.close()
		e.close()
	default:
		e.empty(logical)
	}
}
