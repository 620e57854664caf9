package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// enum is one type of the schema whose constants have names on the wire.
type enum struct {
	name   string
	values []value
}

// value is one constant of an enum.
type value struct {
	name   string // in Go
	wire   string // the comment behind it
	number uint8
}

var wireName = regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)

// readSchema returns the enums of some files in the order of their declarations.
func readSchema(paths ...string) (enums []*enum, err error) {
	for _, path := range paths {
		more, err := readEnums(path)
		if err != nil {
			return nil, err
		}
		enums = append(enums, more...)
	}
	return enums, nil
}

func readEnums(path string) ([]*enum, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var enums []*enum
	byName := map[string]*enum{}
	err = eachSpec(file, func(spec ast.Spec) error {
		if t, ok := spec.(*ast.TypeSpec); ok {
			if base, ok := t.Type.(*ast.Ident); ok && base.Name == "uint8" {
				e := &enum{name: t.Name.Name}
				enums, byName[e.name] = append(enums, e), e
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = eachSpec(file, func(spec ast.Spec) error {
		c, ok := spec.(*ast.ValueSpec)
		if !ok {
			return nil
		}
		typ, ok := c.Type.(*ast.Ident)
		if !ok || byName[typ.Name] == nil {
			return nil
		}
		return byName[typ.Name].add(c)
	})
	if err != nil {
		return nil, err
	}
	for _, e := range enums {
		if len(e.values) == 0 {
			return nil, fmt.Errorf("%s: %s has no constants", path, e.name)
		}
	}
	return enums, nil
}

// eachSpec calls do for every declaration of file, first to last.
func eachSpec(file *ast.File, do func(ast.Spec) error) error {
	for _, decl := range file.Decls {
		gen, ok := decl.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range gen.Specs {
			if err := do(spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// add takes one constant in. Everything about it must be spelt out, because
// its name and number stay forever.
func (e *enum) add(c *ast.ValueSpec) error {
	if len(c.Names) != 1 || len(c.Values) != 1 {
		return fmt.Errorf("%s: one constant a line, with its number", c.Names[0].Name)
	}
	v := value{name: c.Names[0].Name, wire: strings.TrimSpace(c.Comment.Text())}
	lit, ok := c.Values[0].(*ast.BasicLit)
	if !ok || lit.Kind != token.INT {
		return fmt.Errorf("%s: its number must be a literal", v.name)
	}
	n, err := strconv.ParseUint(lit.Value, 10, 8)
	if err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	v.number = uint8(n)
	if !wireName.MatchString(v.wire) {
		return fmt.Errorf("%s: %q behind it is not a wire name", v.name, v.wire)
	}
	for _, other := range e.values {
		if other.wire == v.wire || other.number == v.number {
			return fmt.Errorf("%s: same name or number as %s", v.name, other.name)
		}
	}
	e.values = append(e.values, v)
	return nil
}
