package cloud

import (
	"net"
	"path"
	"strings"

	"github.com/mopslock/mopslock/host/store"
)

// services are the hosts of services whose clocks nobody sets: their operators keep a
// whole fleet in time. A "*" stands for any part of a label, and more labels may come
// before. A host that people can give a machine of their own is none of them: AWS names
// load balancers below amazonaws.com.
var services = []string{
	// Amazon S3, also its endpoints for a VPC, dual stack, FIPS, acceleration and access points.
	"s3*.amazonaws.com", "s3*.*.amazonaws.com", "s3*.dualstack.*.amazonaws.com", "s3*.*.vpce.amazonaws.com",
	"s3*.*.amazonaws.com.cn", "s3*.dualstack.*.amazonaws.com.cn", "s3*.*.vpce.amazonaws.com.cn",
	"s3*.*.amazonaws.eu", "s3*.dualstack.*.amazonaws.eu", "s3*.*.vpce.amazonaws.eu",
	"s3*.*.api.aws",
	// Google Cloud Storage, also regional, private and mutual TLS.
	"storage.googleapis.com", "storage.*.rep.googleapis.com", "storage*.p.googleapis.com", "storage.mtls.googleapis.com",
	// Azure Blob Storage and its national clouds.
	"blob.core.windows.net", "blob.storage.azure.net", "blob.core.chinacloudapi.cn", "blob.core.usgovcloudapi.net", "blob.core.cloudapi.de",
	// Others with S3's protocol.
	"r2.cloudflarestorage.com", "backblazeb2.com", "wasabisys.com", "digitaloceanspaces.com",
	"storage.tigris.dev", "t3.storage.dev",
	"cloud-object-storage.appdomain.cloud", "compat.objectstorage.*.oraclecloud.com", "compat.objectstorage.*.oci.customer-oci.com",
	"linodeobjects.com", "vultrobjects.com", "your-objectstorage.com", "upcloudobjects.com",
	"s3.*.scw.cloud", "s3.*.cloud.ovh.net", "s3.*.io.cloud.ovh.net", "s3.*.perf.cloud.ovh.net", "sos-*.exo.io",
	"oss-*.aliyuncs.com", "cos.*.myqcloud.com", "obs.*.myhuaweicloud.com", "storage.yandexcloud.net",
}

// ClockSteps reports whether somebody may set the clock behind an endpoint while leases are
// held, and why. endpoint is a host, with or without a port, or a URL. What the store's URL
// says goes before what the table knows.
func ClockSteps(at *store.Location, endpoint string) (steps bool, why string) {
	host := hostOf(endpoint)
	switch {
	case at.Clock != "":
		return at.Clock == store.ClockHint, "the store URL says clock=" + at.Clock
	case isService(host):
		return false, host + " is a service that keeps its clocks in time"
	}
	return true, host + " may be a server whose clock somebody sets; if nobody does, say clock=" + store.ClockSteady + " in the store URL"
}

func hostOf(endpoint string) string {
	if _, rest, isURL := strings.Cut(endpoint, "://"); isURL {
		endpoint = rest
	}
	host, _, _ := strings.Cut(endpoint, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isService(host string) bool {
	labels := strings.Split(host, ".")
	for _, service := range services {
		count := strings.Count(service, ".") + 1
		if len(labels) < count {
			continue
		}
		// With slashes for the dots, since a "*" of path.Match stops at them.
		end := strings.Join(labels[len(labels)-count:], "/")
		if ok, _ := path.Match(strings.ReplaceAll(service, ".", "/"), end); ok {
			return true
		}
	}
	return false
}
