package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob/s3blob"

	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/cloud"
)

// We do not use gocloud's upload, which is the SDK's transfer manager (v0.4.3). It sends
// If-None-Match with both ways of writing, as it must. But it holds the first 16 MiB and
// then at least two parts, which for 5 TiB are a gigabyte. It aborts a cancelled upload
// with the cancelled context, so the parts stay and are charged for. And it prints a line
// on stderr for each create that has lost.

const (
	maxParts   = 10_000 // of one upload
	smallPart  = 8 << 20
	largePart  = store.MaxBuffer
	maxObject  = 5 << 40
	partUnit   = 1 << 20
	abortAfter = 5 * time.Second // the time limit for cleaning up after a failed upload
)

// uploader writes streamed bodies: a body that fits in one buffer by one PutObject, any
// other by a multipart upload, one part after the other. Either way the last request is
// the one with If-None-Match, and makes the object visible.
type uploader struct {
	client *sdk.Client
	bucket string
	plain  bool // without TLS
	sse    types.ServerSideEncryption
	kms    *string
	// checksums of bodies and parts, which each request must announce: a bucket with a
	// default retention refuses a body without. It is the SDK's own default, or "" if the
	// URL says request_checksum_calculation=when_required.
	checksums types.ChecksumAlgorithm

	// For tests: partSize, the most parts, and the largest part that is held in memory.
	partSize func(size int64) int64
	most     int
	hold     int64
}

// newUploader makes an uploader of a client with that endpoint.
func newUploader(client *sdk.Client, bucket, endpoint string, opts *s3blob.Options) *uploader {
	u := &uploader{client: client, bucket: bucket, sse: opts.EncryptionType, partSize: partSize, most: maxParts, hold: largePart}
	set := client.Options()
	u.plain = set.EndpointOptions.DisableHTTPS || strings.HasPrefix(strings.ToLower(endpoint), "http://")
	if set.RequestChecksumCalculation != aws.RequestChecksumCalculationWhenRequired {
		u.checksums = types.ChecksumAlgorithmCrc32
	}
	if opts.KMSEncryptionID != "" {
		u.kms = &opts.KMSEncryptionID
	}
	return u
}

// maxSize returns the largest body. Without TLS the SDK reads each part twice, so a part
// must fit in memory.
func (u *uploader) maxSize() int64 {
	if u.plain {
		return largePart * maxParts
	}
	return maxObject
}

// partSize returns how many bytes each part but the last has. A part above largePart is
// too large to hold in memory.
func partSize(size int64) int64 {
	switch {
	case size >= 0 && size <= smallPart*maxParts:
		return smallPart
	case size <= largePart*maxParts:
		return largePart
	}
	part := (size + maxParts - 1) / maxParts
	return (part + partUnit - 1) / partUnit * partUnit
}

// part is a piece of a body.
type part struct {
	body io.Reader
	size int64
	last bool // the body ends with it
}

func (u *uploader) upload(ctx context.Context, up *cloud.Upload) error {
	length := u.partSize(up.Size)
	if length > u.hold {
		return u.multipart(ctx, up, part{}, streamed(up, length))
	}
	next := buffered(up, length)
	first, err := next()
	switch {
	case err != nil:
		return err
	case first.last:
		return u.single(ctx, up, first)
	}
	return u.multipart(ctx, up, first, next)
}

// buffered returns a function that reads part after part into one buffer. A part must be
// sent before the next one is read.
func buffered(up *cloud.Upload, length int64) func() (part, error) {
	if up.Size >= 0 && up.Size < length {
		length = up.Size + 1 // room to see the end
	}
	buffer := make([]byte, length)
	return func() (part, error) {
		n, err := io.ReadFull(up.Body, buffer)
		p := part{body: bytes.NewReader(buffer[:n]), size: int64(n)}
		if err == io.EOF || err == io.ErrUnexpectedEOF { // ReadFull's own: a Source wraps the errors of its body
			p.last, err = true, nil
		}
		return p, err
	}
}

// streamed returns a function that cuts a body of known size into parts that are sent as
// they are read.
func streamed(up *cloud.Upload, length int64) func() (part, error) {
	left := up.Size
	return func() (part, error) {
		p := part{size: min(length, left)}
		p.body = io.LimitReader(up.Body, p.size)
		left -= p.size
		p.last = left == 0
		return p, nil
	}
}

func (u *uploader) single(ctx context.Context, up *cloud.Upload, p part) error {
	if err := up.Commit(); err != nil {
		return err
	}
	_, err := u.client.PutObject(ctx, &sdk.PutObjectInput{
		Bucket: &u.bucket, Key: &up.Key, ContentType: &up.ContentType, Body: p.body, ContentLength: &p.size, ChecksumAlgorithm: u.checksums,
		IfNoneMatch: ifNoneMatch(up), ServerSideEncryption: u.sse, SSEKMSKeyId: u.kms,
	})
	return err
}

func ifNoneMatch(up *cloud.Upload) *string {
	if !up.IfNotExist {
		return nil
	}
	anything := "*"
	return &anything
}

// multipart sends first, unless it is the zero part, and then the parts that next returns.
func (u *uploader) multipart(ctx context.Context, up *cloud.Upload, first part, next func() (part, error)) (err error) {
	begun, err := u.client.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{
		Bucket: &u.bucket, Key: &up.Key, ContentType: &up.ContentType, ChecksumAlgorithm: u.checksums,
		ServerSideEncryption: u.sse, SSEKMSKeyId: u.kms,
	})
	if err != nil {
		return err
	}
	defer func() {
		// Also after a completion of unknown outcome. If the completion was applied,
		// there is no upload any more; if not, it cannot be applied after the abort.
		if err != nil {
			u.abort(ctx, up.Key, begun.UploadId)
		}
	}()
	var done []types.CompletedPart
	for p := first; ; {
		if p.body != nil && p.size > 0 {
			sent, err := u.send(ctx, up, begun.UploadId, int32(len(done)+1), p)
			if err != nil {
				return err
			}
			done = append(done, sent)
		}
		if p.last {
			break
		}
		if p, err = next(); err != nil {
			return err
		}
		if len(done) == u.most && p.size > 0 {
			return fmt.Errorf("%w: it has more than %d parts, and its size was not said", store.ErrTooLarge, u.most)
		}
	}
	return u.complete(ctx, up, begun.UploadId, done)
}

func (u *uploader) send(ctx context.Context, up *cloud.Upload, id *string, number int32, p part) (types.CompletedPart, error) {
	sent, err := u.client.UploadPart(ctx, &sdk.UploadPartInput{
		Bucket: &u.bucket, Key: &up.Key, UploadId: id, PartNumber: &number, Body: p.body, ContentLength: &p.size, ChecksumAlgorithm: u.checksums,
	})
	if err != nil {
		return types.CompletedPart{}, err
	}
	return types.CompletedPart{
		PartNumber: &number, ETag: sent.ETag,
		ChecksumCRC32: sent.ChecksumCRC32, ChecksumCRC32C: sent.ChecksumCRC32C, ChecksumCRC64NVME: sent.ChecksumCRC64NVME,
		ChecksumSHA1: sent.ChecksumSHA1, ChecksumSHA256: sent.ChecksumSHA256,
	}, nil
}

// complete makes the object, if the body has the right size and ended in time.
func (u *uploader) complete(ctx context.Context, up *cloud.Upload, id *string, done []types.CompletedPart) error {
	// Streamed parts end at the announced size. This reads whether the body does too.
	if _, err := io.Copy(io.Discard, up.Body); err != nil {
		return err
	}
	if err := up.Body.Complete(); err != nil {
		return err
	}
	if err := up.Commit(); err != nil {
		return err
	}
	_, err := u.client.CompleteMultipartUpload(ctx, &sdk.CompleteMultipartUploadInput{
		Bucket: &u.bucket, Key: &up.Key, UploadId: id, IfNoneMatch: ifNoneMatch(up),
		MultipartUpload: &types.CompletedMultipartUpload{Parts: done},
	})
	return err
}

// remove deletes an object with one request. gocloud's asks first whether it is there.
func (u *uploader) remove(ctx context.Context, key string) error {
	_, err := u.client.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: &u.bucket, Key: &key})
	return err
}

// abort removes the parts. It does not use ctx, whose end may be why the upload failed. If
// abort fails, parts stay that never become an object.
func (u *uploader) abort(ctx context.Context, key string, id *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortAfter)
	defer cancel()
	_, _ = u.client.AbortMultipartUpload(ctx, &sdk.AbortMultipartUploadInput{Bucket: &u.bucket, Key: &key, UploadId: id})
}
