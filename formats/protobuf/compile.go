package protobuf

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// CompileFile compiles a .proto file; what it imports is looked for from its own
// folder and then from those above it, since imports are named from the root of
// a tree of schemas.
func CompileFile(path string) (set string, err error) {
	dir, name := filepath.Split(path)
	var roots []string
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if roots = append(roots, dir); dir == filepath.Dir(dir) {
			break
		}
	}
	return compile(&protocompile.SourceResolver{ImportPaths: roots}, name)
}

// CompileText compiles one of several texts; names are those imports use.
func CompileText(texts map[string]string, name string) (set string, err error) {
	return compile(&protocompile.SourceResolver{Accessor: protocompile.SourceAccessorFromMap(texts)}, name)
}

// compile gives a FileDescriptorSet in base64, imports first and the file last.
func compile(from protocompile.Resolver, name string) (string, error) {
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(from)}
	files, err := c.Compile(context.Background(), name)
	if err != nil {
		return "", fmt.Errorf("protobuf schema: %w", err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(files[0])
	return encodeSet(set)
}

// ReadSet takes a FileDescriptorSet as protoc writes it; its last file is the
// one whose messages records hold.
func ReadSet(b []byte) (set string, err error) {
	s := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(b, s); err != nil || len(s.File) == 0 {
		return "", errors.Join(errors.New("protobuf schema: is no FileDescriptorSet"), err)
	}
	return encodeSet(s)
}

func encodeSet(s *descriptorpb.FileDescriptorSet) (string, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	return base64.StdEncoding.EncodeToString(b), err
}

// Parse gives a message of a set; an empty name is the first of its last file.
func Parse(set, name string) (*Message, error) {
	b, err := base64.StdEncoding.DecodeString(set)
	if err != nil {
		return nil, fmt.Errorf("protobuf schema: %w", err)
	}
	s := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("protobuf schema: %w", err)
	}
	files, err := protodesc.NewFiles(s)
	if err != nil {
		return nil, fmt.Errorf("protobuf schema: %w", err)
	}
	if name == "" {
		f, err := files.FindFileByPath(s.File[len(s.File)-1].GetName())
		if err != nil || f.Messages().Len() == 0 {
			return nil, fmt.Errorf("protobuf schema: file %s has no message", s.File[len(s.File)-1].GetName())
		}
		return newMessage(f.Messages().Get(0), map[protoreflect.FullName]*Message{}), nil
	}
	d, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if m, ok := d.(protoreflect.MessageDescriptor); err == nil && ok {
		return newMessage(m, map[protoreflect.FullName]*Message{}), nil
	}
	return nil, fmt.Errorf("protobuf schema: has no message %s", name)
}

var kinds = map[protoreflect.Kind]Kind{
	protoreflect.BoolKind: Bool, protoreflect.Int32Kind: Int32, protoreflect.Sint32Kind: Sint32, protoreflect.Sfixed32Kind: Sfixed32,
	protoreflect.Uint32Kind: Uint32, protoreflect.Fixed32Kind: Fixed32, protoreflect.Int64Kind: Int64, protoreflect.Sint64Kind: Sint64,
	protoreflect.Sfixed64Kind: Sfixed64, protoreflect.Uint64Kind: Uint64, protoreflect.Fixed64Kind: Fixed64, protoreflect.FloatKind: Float,
	protoreflect.DoubleKind: Double, protoreflect.StringKind: String, protoreflect.BytesKind: Bytes, protoreflect.EnumKind: Enum,
	protoreflect.MessageKind: Submessage, protoreflect.GroupKind: Submessage,
}

func newMessage(d protoreflect.MessageDescriptor, known map[protoreflect.FullName]*Message) *Message {
	if m := known[d.FullName()]; m != nil {
		return m
	}
	m := &Message{Name: string(d.FullName())}
	known[d.FullName()] = m
	m.json = func(b []byte) ([]byte, error) {
		v := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(b, v); err != nil {
			return nil, err
		}
		text, err := protojson.Marshal(v)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = json.Compact(&out, text) // its spaces are not the same in every binary
		return out.Bytes(), err
	}
	for i := range d.Fields().Len() {
		m.Fields = append(m.Fields, newField(d.Fields().Get(i), known))
	}
	return m
}

func newField(d protoreflect.FieldDescriptor, known map[protoreflect.FullName]*Message) Field {
	f := Field{
		Number: int32(d.Number()), Name: string(d.Name()), Kind: kinds[d.Kind()], Repeated: d.IsList() || d.IsMap(), Map: d.IsMap(),
		Presence: d.HasPresence(),
	}
	if d.Kind() == protoreflect.GroupKind {
		f.Name = string(d.Message().Name())
	}
	if o := d.ContainingOneof(); o != nil && !o.IsSynthetic() {
		f.Oneof = o.Index() + 1
	}
	if d.Message() != nil {
		f.Message = newMessage(d.Message(), known)
	}
	if d.Enum() != nil {
		f.Symbols = map[int32]string{}
		for i := range d.Enum().Values().Len() {
			v := d.Enum().Values().Get(i)
			if _, alias := f.Symbols[int32(v.Number())]; !alias {
				f.Symbols[int32(v.Number())] = string(v.Name())
			}
		}
	}
	return f
}
