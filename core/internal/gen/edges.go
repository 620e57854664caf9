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

// writeEdges returns doc_edges.go with the tables of the machines' edges.go in its sections.
func writeEdges(dir string, enums []*enum) ([]byte, error) {
	doc, err := os.ReadFile(filepath.Join(dir, "doc_edges.go"))
	if err != nil {
		return nil, err
	}
	for _, section := range []struct{ heading, room, table string }{
		{"// # The edges of a Lease\n", "lastwriter", "LeaseEdges"},
		{"// # The edges of a Companion\n", "lastwriter", "CompanionEdges"},
		{"// # The edges of a strict Lease\n", "strict", "LeaseEdges"},
		{"// # The edges of a strict Companion\n", "strict", "CompanionEdges"},
		{"// # The edges of a Session\n", "strict", "SessionEdges"},
		{"// # The edges of an Invocation\n", "invocation", "InvocationEdges"},
		{"// # The edges of a Semaphore\n", "semaphore", "SemaphoreEdges"},
		{"// # The edges of a Revocation, an Inspection and a StoreClockSample\n", "strict", "TaskEdges"},
	} {
		tables, err := readEdges(filepath.Join(dir, "internal", section.room, "edges.go"), enums)
		if err != nil {
			return nil, err
		}
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
	w.WriteString("//\n")
	for _, element := range rows.Elts {
		row, ok := element.(*ast.CompositeLit)
		if !ok || len(row.Elts) != 3 {
			return nil, fmt.Errorf("edges.go: a row is {from, to, why}")
		}
		from, to := stateOf(row.Elts[0], wire), stateOf(row.Elts[1], wire)
		why, ok := fieldOf(row.Elts[2]).(*ast.BasicLit)
		if !ok || from == "" || to == "" {
			return nil, fmt.Errorf("edges.go: a row is {from, to, why}, both states of the schema")
		}
		text, err := strconv.Unquote(why.Value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&w, "//\t%-9s -> %-9s  %s\n", from, to, text)
	}
	w.WriteString("//\n")
	return w.Bytes(), nil
}

// fieldOf is a row's field, with its key or without.
func fieldOf(e ast.Expr) ast.Expr {
	if pair, ok := e.(*ast.KeyValueExpr); ok {
		return pair.Value
	}
	return e
}

// stateOf is the wire name of a state of package core, or "".
func stateOf(e ast.Expr, wire map[string]string) string {
	if state, ok := fieldOf(e).(*ast.SelectorExpr); ok {
		return wire[state.Sel.Name]
	}
	return ""
}
