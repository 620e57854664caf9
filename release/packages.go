package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/apk"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// packPackages writes a .deb, a .rpm and an .apk of the command for each Linux. They are not
// signed, and need nothing: the binary is static.
func (r *release) packPackages() error {
	staged, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged)
	contents, err := r.stage(staged)
	if err != nil {
		return err
	}
	for _, arch := range r.on("linux") {
		for _, format := range []string{"deb", "rpm", "apk"} {
			if err := r.packPackage(format, arch, contents); err != nil {
				return err
			}
		}
	}
	return nil
}

// stage gives the man pages as distributions want them, and says where all goes.
func (r *release) stage(dir string) (files.Contents, error) {
	pages, err := readDir(filepath.Join(r.pages, "man"), 0o644)
	if err != nil {
		return nil, err
	}
	contents := files.Contents{
		r.content(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/"+command+"/copyright", 0o644),
		r.content(filepath.Join(r.root, "README.md"), "/usr/share/doc/"+command+"/README.md", 0o644),
		r.content(filepath.Join(r.pages, "completions/mopslock-host.bash"), "/usr/share/bash-completion/completions/mopslock-host", 0o644),
		r.content(filepath.Join(r.pages, "completions/_mopslock-host"), "/usr/share/zsh/site-functions/_mopslock-host", 0o644),
		r.content(filepath.Join(r.pages, "completions/mopslock-host.fish"), "/usr/share/fish/vendor_completions.d/mopslock-host.fish", 0o644),
	}
	for _, page := range pages {
		data, err := zipped(page.data)
		if err != nil {
			return nil, err
		}
		from := filepath.Join(dir, page.name+".gz")
		if err := os.WriteFile(from, data, 0o644); err != nil {
			return nil, err
		}
		contents = append(contents, r.content(from, "/usr/share/man/man1/"+page.name+".gz", 0o644))
	}
	return contents, nil
}

func (r *release) content(from, to string, mode os.FileMode) *files.Content {
	return &files.Content{Source: from, Destination: to, FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}}
}

func (r *release) packPackage(format, arch string, contents files.Contents) error {
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	contents = append(files.Contents{r.content(r.binary("linux-"+arch), "/usr/bin/"+command, 0o755)}, contents...)
	if format == "deb" { // which has a directory of its own for zsh
		for i, c := range contents {
			copied := *c
			copied.Destination = strings.Replace(c.Destination, "zsh/site-functions", "zsh/vendor-completions", 1)
			contents[i] = &copied
		}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: command, Arch: arch, Platform: "linux", Version: r.version, Release: "1",
		Section: "utils", Priority: "optional", Maintainer: "mopslock <" + homepage + ">", Vendor: "mopslock",
		Description: summary + ".\nThere is no server: the store is a directory, S3, Google Cloud Storage or Azure.",
		Homepage:    homepage, License: license, MTime: r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{BuildHost: "localhost", Summary: summary}},
	})
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	return create(r.path(packager.ConventionalFileName(info)), func(to io.Writer) error { return packager.Package(info, to) })
}
