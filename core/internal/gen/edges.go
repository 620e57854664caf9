package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
)

// writeEdges returns doc_edges.go with the tables of edges.go in its two sections.
func writeEdges(dir string, enums []*enum) ([]byte, error) {
	doc, err := os.ReadFile(filepath.Join(dir, "doc_edges.go"))
	if err != nil {
		return nil, err
	}
	tables, err := readEdges(filepath.Join(dir, "edges.go"), enums)
	if err != nil {
		return nil, err
	}
	for _, section := range []struct{ heading, table string }{
		{"// # The edges of a Lease\n", "leaseEdges"},
		{"// # The edges of a Companion\n", "companionEdges"},
		{"// # The edges of a StrictLease\n", "strictLeaseEdges"},
		{"// # The edges of a StrictCompanion\n", "strictCompanionEdges"},
		{"// # The edges of a Session\n", "sessionEdges"},
		{"// # The edges of an Invocation\n", "invocationEdges"},
		{"// # The edges of a Semaphore\n", "semaphoreEdges"},
		{"// # The edges of a Breaker, an Observer and a Calibration\n", "taskEdges"},
	} {
		if doc, err = replaceSection(doc, section.heading, tables[section.table]); err != nil {
			return nil, err
		}
	}
	return format.Source(doc)
}

// replaceSection puts text between a heading and the next.
func replaceSection(doc []byte, heading string, text []byte) ([]byte, error) {
	start := bytes.Index(doc, []byte(heading))
	if start < 0 || text == nil {
		return nil, fmt.Errorf("doc_edges.go: no section %q, or no table for it", heading)
	}
	start += len(heading)
	end := bytes.Index(doc[start:], []byte("// # "))
	if end < 0 {
		end = bytes.Index(doc[start:], []byte("package "))
	}
	if end < 0 {
		return nil, fmt.Errorf("doc_edges.go: nothing follows %q", heading)
	}
	return bytes.Join([][]byte{doc[:start], text, doc[start+end:]}, nil), nil
}

// readEdges returns each table as the lines of a doc comment.
func readEdges(path string, enums []*enum) (map[string][]byte, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		return nil, err
	}
	wire := map[string]string{}
	for _, e := range enums {
		for _, v := range e.values {
			wire[v.name] = v.wire
		}
	}
	tables := map[string][]byte{}
	err = eachSpec(file, func(spec ast.Spec) error {
		table, ok := spec.(*ast.ValueSpec)
		if !ok || len(table.Values) != 1 {
			return nil
		}
		rows, ok := table.Values[0].(*ast.CompositeLit)
		if !ok {
			return nil
		}
		text, err := edgeRows(rows, wire)
		tables[table.Names[0].Name] = text
		return err
	})
	return tables, err
}

func edgeRows(rows *ast.CompositeLit, wire map[string]string) ([]byte, error) {
	var w bytes.Buffer
	w.WriteString("//\n// (written by internal/gen from edges.go)\n//\n")
	for _, element := range rows.Elts {
		row, ok := element.(*ast.CompositeLit)
		if !ok || len(row.Elts) != 3 {
			return nil, fmt.Errorf("edges.go: a row is {from, to, why}")
		}
		from, ok1 := row.Elts[0].(*ast.Ident)
		to, ok2 := row.Elts[1].(*ast.Ident)
		why, ok3 := row.Elts[2].(*ast.BasicLit)
		if !ok1 || !ok2 || !ok3 || wire[from.Name] == "" || wire[to.Name] == "" {
			return nil, fmt.Errorf("edges.go: a row is {from, to, why}, both states of the schema")
		}
		text, err := strconv.Unquote(why.Value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&w, "//\t%-9s -> %-9s  %s\n", wire[from.Name], wire[to.Name], text)
	}
	w.WriteString("//\n")
	return w.Bytes(), nil
}
