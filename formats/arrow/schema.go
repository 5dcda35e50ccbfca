package arrow

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow"

	"sawlog/formats"
)

// fileSchema is the schema of a file.
func fileSchema(s *formats.Schema) *arrow.Schema {
	fields := make([]arrow.Field, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		fields[i] = field(f.Name, f.Type, !f.Required())
	}
	return arrow.NewSchema(fields, nil)
}

// The keys by which a field says that it is of an extension type.
const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"
)

func field(name string, t *formats.Type, nullable bool) arrow.Field {
	f := arrow.Field{Name: name, Type: dataType(t), Nullable: nullable}
	switch t.Kind {
	case formats.UUID:
		f.Metadata = arrow.NewMetadata([]string{extensionName, extensionMetadata}, []string{"arrow.uuid", ""})
	case formats.JSON:
		f.Metadata = arrow.NewMetadata([]string{extensionName, extensionMetadata}, []string{"arrow.json", ""})
	}
	return f
}

func dataType(t *formats.Type) arrow.DataType {
	switch t.Kind {
	case formats.Bool:
		return arrow.FixedWidthTypes.Boolean
	case formats.Int32:
		return arrow.PrimitiveTypes.Int32
	case formats.Int64:
		return arrow.PrimitiveTypes.Int64
	case formats.Float:
		return arrow.PrimitiveTypes.Float32
	case formats.Double:
		return arrow.PrimitiveTypes.Float64
	case formats.String, formats.JSON:
		return arrow.BinaryTypes.String
	case formats.Date:
		return arrow.FixedWidthTypes.Date32
	case formats.UUID:
		return &arrow.FixedSizeBinaryType{ByteWidth: 16}
	case formats.Timestamp:
		zone := "UTC"
		if t.Local {
			zone = ""
		}
		return &arrow.TimestampType{Unit: [...]arrow.TimeUnit{arrow.Millisecond, arrow.Microsecond, arrow.Nanosecond}[t.Unit], TimeZone: zone}
	case formats.Decimal:
		return &arrow.Decimal128Type{Precision: t.Precision, Scale: t.Scale}
	case formats.List:
		return arrow.ListOfField(field("element", t.Elem, true))
	case formats.Map:
		item := field("value", t.Elem, true)
		return arrow.MapOfWithMetadata(arrow.BinaryTypes.String, arrow.Metadata{}, item.Type, item.Metadata)
	case formats.Struct:
		fields := make([]arrow.Field, len(t.Fields))
		for i := range t.Fields {
			fields[i] = field(t.Fields[i].Name, t.Fields[i].Type, true)
		}
		return arrow.StructOf(fields...)
	}
	return arrow.BinaryTypes.Binary
}

// typeOf is the type of a field as dataType made it.
func typeOf(f *arrow.Field) (*formats.Type, error) {
	extension, _ := f.Metadata.GetValue(extensionName)
	switch t := f.Type.(type) {
	case *arrow.BooleanType:
		return &formats.Type{Kind: formats.Bool}, nil
	case *arrow.Int32Type:
		return &formats.Type{Kind: formats.Int32}, nil
	case *arrow.Int64Type:
		return &formats.Type{Kind: formats.Int64}, nil
	case *arrow.Float32Type:
		return &formats.Type{Kind: formats.Float}, nil
	case *arrow.Float64Type:
		return &formats.Type{Kind: formats.Double}, nil
	case *arrow.StringType:
		if extension == "arrow.json" {
			return &formats.Type{Kind: formats.JSON}, nil
		}
		return &formats.Type{Kind: formats.String}, nil
	case *arrow.BinaryType:
		return &formats.Type{Kind: formats.Bytes}, nil
	case *arrow.Date32Type:
		return &formats.Type{Kind: formats.Date}, nil
	case *arrow.FixedSizeBinaryType:
		return &formats.Type{Kind: formats.UUID}, nil
	case *arrow.TimestampType:
		out := &formats.Type{Kind: formats.Timestamp, Local: t.TimeZone == ""}
		switch t.Unit {
		case arrow.Microsecond:
			out.Unit = formats.Micros
		case arrow.Nanosecond:
			out.Unit = formats.Nanos
		}
		return out, nil
	case *arrow.Decimal128Type:
		return &formats.Type{Kind: formats.Decimal, Precision: t.Precision, Scale: t.Scale}, nil
	case *arrow.MapType:
		item := t.ItemField()
		elem, err := typeOf(&item)
		return &formats.Type{Kind: formats.Map, Elem: elem}, err
	case *arrow.ListType:
		item := t.ElemField()
		elem, err := typeOf(&item)
		return &formats.Type{Kind: formats.List, Elem: elem}, err
	case *arrow.StructType:
		out := &formats.Type{Kind: formats.Struct}
		for _, member := range t.Fields() {
			elem, err := typeOf(&member)
			if err != nil {
				return nil, err
			}
			out.Fields = append(out.Fields, formats.Field{Name: member.Name, Type: elem})
		}
		return out, nil
	}
	return nil, fmt.Errorf("arrow: column %q: type %s is not read", f.Name, f.Type)
}
