package cloud

import (
	"strings"
	"testing"

	"gocloud.dev/blob/memblob"

	"github.com/mopslock/mopslock/host/store"
)

// TestClockOfEndpoints: the stamps of services are trusted, by a whole label of their hosts;
// those of any other server are a hint.
func TestClockOfEndpoints(t *testing.T) {
	for _, service := range []string{
		"s3.amazonaws.com", "bucket.s3.amazonaws.com", "s3.eu-west-1.amazonaws.com", "S3.eu-west-1.amazonaws.com:443", "s3-eu-west-1.amazonaws.com",
		"https://bucket.vpce-1a2b3c4d-5e6f.s3.us-east-1.vpce.amazonaws.com", "vpce-1a2b3c4d-5e6f.s3.us-east-1.vpce.amazonaws.com",
		"accesspoint.vpce-1a2b3c4d-5e6f.s3.us-east-1.vpce.amazonaws.com", "point-123456789012.s3-accesspoint.us-east-1.amazonaws.com",
		"s3.dualstack.us-east-1.amazonaws.com", "s3-fips.us-gov-west-1.amazonaws.com", "s3-fips.dualstack.us-gov-west-1.amazonaws.com",
		"bucket.s3-accelerate.amazonaws.com", "bucket.s3-accelerate.dualstack.amazonaws.com",
		"bucket--use1-az5--x-s3.s3express-use1-az5.us-east-1.amazonaws.com",
		"s3.cn-north-1.amazonaws.com.cn", "s3.dualstack.cn-north-1.amazonaws.com.cn", "s3.cn-north-1.amazonaws.com.cn.",
		"storage.googleapis.com", "https://storage.googleapis.com/", "storage.us-central1.rep.googleapis.com", "storage-name.p.googleapis.com",
		"https://account.blob.core.windows.net/container?sig=secret", "account.privatelink.blob.core.windows.net", "account.blob.core.chinacloudapi.cn",
		"account.z1.blob.storage.azure.net",
		"account.r2.cloudflarestorage.com", "account.eu.r2.cloudflarestorage.com", "s3.us-west-004.backblazeb2.com", "s3.eu-central-1.wasabisys.com",
		"fly.storage.tigris.dev", "t3.storage.dev", "nyc3.digitaloceanspaces.com", "bucket.nyc3.digitaloceanspaces.com", "s3.fr-par.scw.cloud",
		"namespace.compat.objectstorage.us-ashburn-1.oraclecloud.com", "oss-cn-hangzhou.aliyuncs.com", "s3.gra.io.cloud.ovh.net",
	} {
		if steps, why := ClockSteps(&store.Location{}, service); steps || !strings.Contains(why, "is a service") || strings.Contains(why, "secret") {
			t.Errorf("%s: %v, %s", service, steps, why)
		}
	}
	for _, other := range []string{
		"", "127.0.0.1:9000", "[::1]:9000", "localhost", "minio", "minio.example.com", "http://minio.example.com:9000/base",
		"amazonaws.com", "ec2-198-51-100-1.compute-1.amazonaws.com", "s3-mine-123.us-east-1.elb.amazonaws.com", "s3-mine-123.elb.us-east-1.amazonaws.com",
		"myamazonaws.com", "s3.us-east-1.myamazonaws.com", "xs3.us-east-1.amazonaws.com", "s3.amazonaws.com.example.com", "s3.amazonaws.com@example.com",
		"notbackblazeb2.com", "r2.cloudflarestorage.com.evil.example", "1-2-3-4.pub.instances.scw.cloud", "storage.googleapis.com.lan", "windows.net",
		"blob.local.azurestack.external",
	} {
		if steps, why := ClockSteps(&store.Location{}, other); !steps || !strings.Contains(why, "clock=steady") {
			t.Errorf("%s: %v, %s", other, steps, why)
		}
	}
}

// TestClockOfURL: what the URL says goes before the table.
func TestClockOfURL(t *testing.T) {
	for word, want := range map[string]bool{store.ClockSteady: false, store.ClockHint: true} {
		for _, host := range []string{"minio.example.com", "s3.amazonaws.com"} {
			if steps, why := ClockSteps(&store.Location{Clock: word}, host); steps != want || why != "the store URL says clock="+word {
				t.Errorf("%s, %s: %v, %s", host, word, steps, why)
			}
		}
	}
	if steps, why := New(memblob.OpenBucket(nil), nil).ClockSteps(); steps || why == "" {
		t.Errorf("memory: %v, %s", steps, why)
	}
}
