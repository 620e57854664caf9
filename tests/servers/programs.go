package servers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

// bucket is the name of every server's bucket or container.
const bucket = "leases"

// program is how one kind of server is started and used.
type program struct {
	file       string // below bin/servers; what the Makefile installs
	command    func(program, address, dir string) (*exec.Cmd, error)
	makeBucket func(*Server) error
	url        func(address string) string
	env        func(address string) []string
}

var programs = map[string]program{
	S3: {
		file: "versitygw-v1.8.0",
		command: func(program, address, dir string) (*exec.Cmd, error) {
			cmd := exec.Command(program, "--quiet", "--port", address, "posix", dir)
			cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
			return cmd, os.Mkdir(filepath.Join(dir, bucket), 0o700)
		},
		makeBucket: func(*Server) error { return nil }, // a directory is one
		url: func(address string) string {
			return "s3://" + bucket + "?endpoint=http://" + address + "&region=us-east-1&use_path_style=true&clock=steady"
		},
		env: func(string) []string {
			return []string{
				"AWS_ACCESS_KEY_ID=" + s3Key, "AWS_SECRET_ACCESS_KEY=" + s3Secret, "AWS_SESSION_TOKEN=",
				"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull,
			}
		},
	},
	GCS: {
		file: "fake-gcs-server-v1.56.1",
		command: func(program, address, _ string) (*exec.Cmd, error) {
			host, port, err := net.SplitHostPort(address)
			cmd := exec.Command(program, "-scheme", "http", "-host", host, "-port", port,
				"-backend", "memory", "-public-host", address, "-log-level", "error")
			return cmd, err
		},
		makeBucket: makeGCSBucket,
		url:        func(string) string { return "gs://" + bucket + "?clock=steady" },
		env:        func(address string) []string { return []string{"STORAGE_EMULATOR_HOST=" + address} },
	},
	Azure: {
		file: filepath.Join("azurite-3.37.0", "node_modules", "azurite", "dist", "src", "blob", "main.js"),
		command: func(program, address, _ string) (*exec.Cmd, error) {
			host, port, err := net.SplitHostPort(address)
			cmd := exec.Command("node", program, "--blobHost", host, "--blobPort", port, "--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry")
			return cmd, err
		},
		makeBucket: makeAzureContainer,
		url: func(address string) string {
			return "azblob://" + bucket + "?domain=" + address + "&protocol=http&localemu=true&clock=steady"
		},
		env: func(string) []string {
			return []string{
				"AZURE_STORAGE_ACCOUNT=" + azureAccount, "AZURE_STORAGE_KEY=" + azureKey,
				"AZURE_STORAGE_SAS_TOKEN=", "AZURE_STORAGE_CONNECTION_STRING=",
			}
		},
	},
}

// The servers' credentials. Azure's are those of Microsoft's emulators.
const (
	s3Key, s3Secret = "mopslock", "not-a-secret"
	azureAccount    = "devstoreaccount1"
	azureKey        = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// bucketLimit is how long it may take to make a bucket.
const bucketLimit = time.Minute

func makeGCSBucket(s *Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), bucketLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.Address+"/storage/v1/b?project=tests",
		strings.NewReader(`{"name":"`+bucket+`"}`))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("no bucket: %s", answer.Status)
	}
	return nil
}

func makeAzureContainer(s *Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), bucketLimit)
	defer cancel()
	credential, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		return err
	}
	client, err := container.NewClientWithSharedKeyCredential("http://"+s.Address+"/"+azureAccount+"/"+bucket, credential, nil)
	if err == nil {
		_, err = client.Create(ctx, nil)
	}
	return err
}
