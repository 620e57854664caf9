package main

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// TestImage: its command runs as the image's user, in what the image has and nothing else.
// Without a store it says what is missing.
func TestImage(t *testing.T) {
	arch := here(t)
	at := t.TempDir()
	f, err := os.Open(released(t, command+"-*-image.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unpack(t, f, at)
	top, err := layout.ImageIndexFromPath(at)
	if err != nil {
		t.Fatal(err)
	}
	tops, err := top.IndexManifest()
	if err != nil || len(tops.Manifests) != 1 {
		t.Fatalf("%v, %v", tops, err)
	}
	index, err := top.ImageIndex(tops.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	images, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range images.Manifests {
		image, err := index.Image(one.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != nobody || config.Architecture != one.Platform.Architecture || len(config.Config.Labels["org.opencontainers.image.revision"]) != 40 {
			t.Errorf("%s: %+v", one.Platform, config)
		}
		if config.Architecture != arch {
			continue
		}
		root := t.TempDir()
		content := mutate.Extract(image)
		unpack(t, content, root)
		content.Close()
		roots, err := os.ReadFile(root + "/etc/ssl/certs/ca-certificates.crt")
		if err != nil || !x509.NewCertPool().AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN")) < 100 {
			t.Errorf("%d bytes of certificates, %v", len(roots), err)
		}
		useImage(t, root, config.Config.Entrypoint[0], config.Config.Env)
	}
}

// useImage runs an image's command in the root that was unpacked, as containers do: alone
// there, and as the image's user, for which they set HOME to the root.
func useImage(t *testing.T, root, entrypoint string, env []string) {
	rootOnly(t, "another user's command is run in a root of its own")
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	in := func(args ...string) *exec.Cmd {
		cmd := exec.Command(entrypoint, args...)
		cmd.Env, cmd.Dir = append(env, "HOME=/"), "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
		return cmd
	}
	mustRun(t, in("version"))
	if out, status := run(t, in("acquire", "deploy", "--ttl=1m")); status == 0 || !strings.Contains(out, "set --store") {
		t.Errorf("without a store: status %d\n%s", status, out)
	}
	mustRun(t, in("acquire", "deploy", "--ttl=1m", "--store=file:///tmp/leases"))
	if out := mustRun(t, in("status", "deploy", "--store=file:///tmp/leases")); !strings.Contains(out, "held") {
		t.Errorf("deploy is\n%s", out)
	}
}
