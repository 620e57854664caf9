package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody runs the image's command. It has no name and no home, so that a store must be named.
const nobody = "65532:65532"

// packImage writes an OCI image of the command for each Linux, as one index in an OCI layout.
func (r *release) packImage() error {
	arches := r.on("linux")
	if len(arches) == 0 {
		return nil
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range arches {
		image, err := r.image(arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	to, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return err
	}
	if err := to.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": r.version})); err != nil {
		return err
	}
	var files []file
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		f, err := read(filepath.ToSlash(relative), name, 0o644)
		files = append(files, f)
		return err
	})
	if err != nil {
		return err
	}
	return create(r.path(fmt.Sprintf("%s-%s-image.tar", command, r.version)), func(to io.Writer) error { return writeTar(to, files, r.time) })
}

func (r *release) image(arch string) (v1.Image, error) {
	binary, err := read("usr/bin/"+command, r.binary("linux-"+arch), 0o755)
	if err != nil {
		return nil, err
	}
	base, err := r.layer([]file{
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", data: certificates(), mode: 0o644},
		{name: "tmp/", mode: 0o1777},
	})
	if err != nil {
		return nil, err
	}
	top, err := r.layer([]file{{name: "usr/", mode: 0o755}, {name: "usr/bin/", mode: 0o755}, binary})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	created := v1.Time{Time: r.time}
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: base, History: v1.History{Created: created, CreatedBy: "certificates", Author: homepage}},
		mutate.Addendum{Layer: top, History: v1.History{Created: created, CreatedBy: command, Author: homepage}})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, created
	config.Config = v1.Config{
		User: nobody, Entrypoint: []string{"/usr/bin/" + command}, WorkingDir: "/", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title":       command,
			"org.opencontainers.image.description": summary,
			"org.opencontainers.image.version":     r.version,
			"org.opencontainers.image.revision":    r.commit,
			"org.opencontainers.image.created":     r.time.UTC().Format("2006-01-02T15:04:05Z"),
			"org.opencontainers.image.source":      homepage,
			"org.opencontainers.image.url":         homepage,
			"org.opencontainers.image.licenses":    license,
		},
	}
	return mutate.ConfigFile(image, config)
}

func (r *release) layer(files []file) (v1.Layer, error) {
	var content bytes.Buffer
	if err := writeTar(&content, files, r.time); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// certificates returns the roots that Mozilla trusts, as the Go project's module has them:
// those alone that are trusted without a condition, since a file of roots can state none.
func certificates() []byte {
	var out strings.Builder
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return []byte(out.String())
}
