package azblob

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob/azureblob"

	"github.com/mopslock/mopslock/host/store/cloud"
)

// newClient reads the environment as gocloud's client does. It also sets what gocloud's
// cannot be given: our own connections, and no retries by the SDK.
func newClient(service azureblob.ServiceURL, name azureblob.ContainerName) (*container.Client, error) {
	opts := &container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: whole{cloud.Marked(cloud.Transport(), marks(string(name)))}},
		Retry:     policy.RetryOptions{MaxRetries: -1},
	}}
	if err := staysHome(service); err != nil {
		return nil, err
	}
	at, err := url.JoinPath(string(service), string(name))
	if err != nil {
		return nil, err
	}
	account, key := os.Getenv("AZURE_STORAGE_ACCOUNT"), os.Getenv("AZURE_STORAGE_KEY")
	connection := cmp.Or(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING"))
	switch {
	case account != "" && key != "":
		credential, err := container.NewSharedKeyCredential(account, key)
		if err != nil {
			return nil, err
		}
		return container.NewClientWithSharedKeyCredential(at, credential, opts)
	case os.Getenv("AZURE_STORAGE_SAS_TOKEN") != "":
		return container.NewClientWithNoCredential(at, opts)
	case connection != "":
		return container.NewClientFromConnectionString(connection, string(name), opts)
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return container.NewClient(at, credential, opts)
}

// staysHome returns an error if the service URL has the environment's token in it, but the
// parameters of the store URL lead it to another server than the environment's.
func staysHome(service azureblob.ServiceURL) error {
	if os.Getenv("AZURE_STORAGE_SAS_TOKEN") == "" {
		return nil
	}
	home, err := azureblob.NewServiceURL(azureblob.NewDefaultServiceURLOptions())
	if err != nil {
		return err
	}
	a, errA := url.Parse(string(home))
	b, errB := url.Parse(string(service))
	if errA != nil || errB != nil {
		return errors.Join(errA, errB)
	}
	if !strings.EqualFold(a.Scheme, b.Scheme) || !strings.EqualFold(a.Host, b.Host) {
		return errors.New("with AZURE_STORAGE_SAS_TOKEN set, a store URL cannot name another server than the environment does")
	}
	return nil
}
