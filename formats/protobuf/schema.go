package protobuf

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Schema is a compiled schema: a file and all that it imports.
type Schema struct {
	files    *protoregistry.Files
	last     protoreflect.FileDescriptor // whose messages records hold
	messages map[protoreflect.FullName]*Message
}

// Parse reads a FileDescriptorSet in base64, as CompileFile, CompileText and
// ReadSet give it.
func Parse(set string) (*Schema, error) {
	s := &descriptorpb.FileDescriptorSet{}
	b, err := base64.StdEncoding.DecodeString(set)
	if err == nil {
		err = proto.Unmarshal(b, s)
	}
	if err == nil && len(s.File) == 0 {
		err = fmt.Errorf("the set is empty")
	}
	if err != nil {
		return nil, fmt.Errorf("protobuf schema: %w", err)
	}
	out := &Schema{messages: map[protoreflect.FullName]*Message{}}
	if out.files, err = protodesc.NewFiles(s); err == nil {
		out.last, err = out.files.FindFileByPath(s.File[len(s.File)-1].GetName())
	}
	if err != nil {
		return nil, fmt.Errorf("protobuf schema: %w", err)
	}
	return out, nil
}

// Message is the message of a full name; an empty name is the file's first.
func (s *Schema) Message(name string) (*Message, error) {
	if name == "" {
		if s.last.Messages().Len() == 0 {
			return nil, fmt.Errorf("protobuf schema: file %s has no message", s.last.Path())
		}
		return newMessage(s.last.Messages().Get(0), s.messages), nil
	}
	d, err := s.files.FindDescriptorByName(protoreflect.FullName(name))
	if m, ok := d.(protoreflect.MessageDescriptor); err == nil && ok {
		return newMessage(m, s.messages), nil
	}
	return nil, fmt.Errorf("protobuf schema: has no message %s", name)
}

// At is the message that the indexes of a framed value lead to: the first counts
// among the messages of the file, the next among those within that one, and so
// on. Nil = there is none. Clients that go by descriptors count the entry
// messages of maps among them, the one that goes by the text does not: of the two
// messages this may mean, it is that of the name wanted, if either is.
func (s *Schema) At(indexes []int64, want string) *Message {
	all, written := s.at(indexes, true), s.at(indexes, false)
	if all == nil || all.IsMapEntry() || written != nil && string(written.FullName()) == want {
		all = written
	}
	if all == nil {
		return nil
	}
	return newMessage(all, s.messages)
}

// at follows indexes; entries says that those of maps count.
func (s *Schema) at(indexes []int64, entries bool) (found protoreflect.MessageDescriptor) {
	among := s.last.Messages()
	for _, index := range indexes {
		found = nil
		for i := range among.Len() {
			if m := among.Get(i); entries || !m.IsMapEntry() {
				if index == 0 {
					found = m
					break
				}
				index--
			}
		}
		if found == nil {
			return nil
		}
		among = found.Messages()
	}
	return found
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
