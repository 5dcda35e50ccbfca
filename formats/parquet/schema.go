package parquet

import (
	"fmt"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"

	"sawlog/formats"
)

// noID leaves a schema element without a field id.
const noID = -1

// fileSchema is the Parquet schema of s: lists have three levels and optional
// elements, maps have required keys, and only metadata columns are required.
func fileSchema(s *formats.Schema) (*schema.GroupNode, error) {
	fields := make(schema.FieldList, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		rep := parquet.Repetitions.Optional
		if f.Required() {
			rep = parquet.Repetitions.Required
		}
		node, err := typeNode(f.Name, f.Type, rep)
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
		fields[i] = node
	}
	return schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, noID)
}

func typeNode(name string, t *formats.Type, rep parquet.Repetition) (schema.Node, error) {
	switch t.Kind {
	case formats.Struct:
		fields := make(schema.FieldList, len(t.Fields))
		for i := range t.Fields {
			node, err := typeNode(t.Fields[i].Name, t.Fields[i].Type, parquet.Repetitions.Optional)
			if err != nil {
				return nil, err
			}
			fields[i] = node
		}
		return schema.NewGroupNode(name, rep, fields, noID)
	case formats.List:
		elem, err := typeNode("element", t.Elem, parquet.Repetitions.Optional)
		if err != nil {
			return nil, err
		}
		list, err := schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{elem}, noID)
		if err != nil {
			return nil, err
		}
		return schema.NewGroupNodeLogical(name, rep, schema.FieldList{list}, schema.NewListLogicalType(), noID)
	case formats.Map:
		key, err := typeNode("key", &formats.Type{Kind: formats.String}, parquet.Repetitions.Required)
		if err != nil {
			return nil, err
		}
		value, err := typeNode("value", t.Elem, parquet.Repetitions.Optional)
		if err != nil {
			return nil, err
		}
		entries, err := schema.NewGroupNode("key_value", parquet.Repetitions.Repeated, schema.FieldList{key, value}, noID)
		if err != nil {
			return nil, err
		}
		return schema.NewGroupNodeLogical(name, rep, schema.FieldList{entries}, schema.MapLogicalType{}, noID)
	default:
		return primitive(name, t, rep)
	}
}

func primitive(name string, t *formats.Type, rep parquet.Repetition) (schema.Node, error) {
	var logical schema.LogicalType = schema.NoLogicalType{}
	physical, width := parquet.Types.ByteArray, -1
	switch t.Kind {
	case formats.Bool:
		physical = parquet.Types.Boolean
	case formats.Int32:
		physical = parquet.Types.Int32
	case formats.Int64:
		physical = parquet.Types.Int64
	case formats.Float:
		physical = parquet.Types.Float
	case formats.Double:
		physical = parquet.Types.Double
	case formats.String:
		logical = schema.StringLogicalType{}
	case formats.Bytes:
	case formats.JSON:
		logical = schema.JSONLogicalType{}
	case formats.Date:
		physical, logical = parquet.Types.Int32, schema.DateLogicalType{}
	case formats.UUID:
		physical, width, logical = parquet.Types.FixedLenByteArray, 16, schema.UUIDLogicalType{}
	case formats.Timestamp:
		units := [...]schema.TimeUnitType{schema.TimeUnitMillis, schema.TimeUnitMicros, schema.TimeUnitNanos}
		physical, logical = parquet.Types.Int64, schema.NewTimestampLogicalType(!t.Local, units[t.Unit])
	case formats.Decimal:
		logical = schema.NewDecimalLogicalType(t.Precision, t.Scale)
		switch {
		case t.Precision <= 9:
			physical = parquet.Types.Int32
		case t.Precision <= 18:
			physical = parquet.Types.Int64
		default:
			physical, width = parquet.Types.FixedLenByteArray, 16
		}
	default:
		return nil, fmt.Errorf("no Parquet type for %s", t)
	}
	return schema.NewPrimitiveNodeLogical(name, rep, logical, physical, width, noID)
}
