// Command minio-steps uses a bucket through minio-go as an application does, and prints one line for each step:
// "ok NAME", or "FAIL NAME: why". Each step checks what it gets back. The exit code is the number of failures.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
	"github.com/minio/minio-go/v7/pkg/tags"
)

const (
	// Below 5 MiB no part but the last may be.
	partBytes = 5 << 20
	// Every character that signers escape in ways of their own, and one beyond ASCII.
	awkward = "a b+c=d&e@f,g(h)'i!j*k~l:m;n$o/ü☃.txt"
)

type bench struct {
	context   context.Context
	client    *minio.Client
	bucket    string
	prefix    string
	signature string
	failures  int
}

func main() {
	endpoint := flag.String("endpoint", "", "host and port")
	bucket := flag.String("bucket", "", "a repository")
	prefix := flag.String("prefix", "", "where to write: a branch and a folder, with a slash at the end")
	signature := flag.String("signature", "v4", "v2, v4 or streaming")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	b := &bench{context: ctx, bucket: *bucket, prefix: *prefix, signature: *signature}
	access, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY")
	options := &minio.Options{BucketLookup: minio.BucketLookupPath}
	switch *signature {
	case "v2":
		options.Creds = credentials.NewStaticV2(access, secret, "")
	case "v4":
		options.Creds = credentials.NewStaticV4(access, secret, "")
	case "streaming":
		// Chunks that are signed one by one, with a checksum behind them.
		options.Creds = credentials.NewStaticV4(access, secret, "")
		options.TrailingHeaders = true
	}
	client, err := minio.New(*endpoint, options)
	if err != nil {
		fmt.Println("FAIL new:", err)
		os.Exit(1)
	}
	b.client = client
	b.all()
	os.Exit(b.failures)
}

func (b *bench) all() {
	for _, each := range []struct {
		name string
		run  func() error
	}{
		{"make bucket", b.makeBucket},
		{"list buckets", b.listBuckets},
		{"bucket exists", b.bucketExists},
		{"bucket location", b.bucketLocation},
		{"bucket settings", b.bucketSettings},
		{"put and get", b.putAndGet},
		{"put without a length", b.putWithoutLength},
		{"awkward names", b.awkwardNames},
		{"stat", b.stat},
		{"conditions", b.conditions},
		{"range", b.byteRange},
		{"list", b.list},
		{"copy", b.copy},
		{"tags", b.tags},
		{"attributes", b.attributes},
		{"multipart", b.multipart},
		{"compose", b.compose},
		{"incomplete uploads", b.incomplete},
		{"presign", b.presign},
		{"presign with overrides", b.presignOverrides},
		{"remove", b.remove},
		{"remove many", b.removeMany},
		{"what is missing", b.missing},
	} {
		if err := each.run(); err != nil {
			b.failures++
			fmt.Printf("FAIL %s: %v\n", each.name, describe(err))
			continue
		}
		fmt.Println("ok", each.name)
	}
}

func describe(err error) string {
	var told minio.ErrorResponse
	if errors.As(err, &told) {
		return fmt.Sprintf("%d %s: %s", told.StatusCode, told.Code, told.Message)
	}
	return err.Error()
}

func want(what string, got, expected any) error {
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		return fmt.Errorf("%s is %.200v, not %.200v", what, got, expected)
	}
	return nil
}

func wantCode(err error, code string) error {
	if err == nil {
		return fmt.Errorf("no error, where %s is due", code)
	}
	return want("code", minio.ToErrorResponse(err).Code, code)
}

func (b *bench) put(name, body string, options minio.PutObjectOptions) (minio.UploadInfo, error) {
	return b.client.PutObject(b.context, b.bucket, b.prefix+name, strings.NewReader(body), int64(len(body)), options)
}

func (b *bench) content(name string, options minio.GetObjectOptions) (string, error) {
	object, err := b.client.GetObject(b.context, b.bucket, b.prefix+name, options)
	if err != nil {
		return "", err
	}
	defer object.Close()
	body, err := io.ReadAll(object)
	return string(body), err
}

func (b *bench) wantContent(name, expected string) error {
	got, err := b.content(name, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	return want("content of "+name, got, expected)
}

func (b *bench) makeBucket() error {
	return wantCode(b.client.MakeBucket(b.context, b.bucket, minio.MakeBucketOptions{}), "BucketAlreadyOwnedByYou")
}

func (b *bench) listBuckets() error {
	buckets, err := b.client.ListBuckets(b.context)
	if err != nil {
		return err
	}
	for _, bucket := range buckets {
		if bucket.Name == b.bucket {
			return nil
		}
	}
	return fmt.Errorf("%s is not among %d buckets", b.bucket, len(buckets))
}

func (b *bench) bucketExists() error {
	there, err := b.client.BucketExists(b.context, b.bucket)
	if err != nil {
		return err
	}
	absent, err := b.client.BucketExists(b.context, "no-such-repository")
	return errors.Join(err, want("there", there, true), want("there", absent, false))
}

func (b *bench) bucketLocation() error {
	location, err := b.client.GetBucketLocation(b.context, b.bucket)
	if err != nil {
		return err
	}
	return want("location", location, "us-east-1")
}

func (b *bench) bucketSettings() error {
	_, encryption := b.client.GetBucketEncryption(b.context, b.bucket)
	_, lifecycle := b.client.GetBucketLifecycle(b.context, b.bucket)
	_, tagging := b.client.GetBucketTagging(b.context, b.bucket)
	_, versioning := b.client.GetBucketVersioning(b.context, b.bucket)
	_, _, _, _, lock := b.client.GetObjectLockConfig(b.context, b.bucket)
	_, replication := b.client.GetBucketReplication(b.context, b.bucket)
	_, cors := b.client.GetBucketCors(b.context, b.bucket)
	policy, err := b.client.GetBucketPolicy(b.context, b.bucket)
	return errors.Join(
		err, versioning, cors, replication,
		want("policy", policy, ""),
		wantCode(encryption, "ServerSideEncryptionConfigurationNotFoundError"),
		wantCode(lifecycle, "NoSuchLifecycleConfiguration"),
		wantCode(tagging, "NoSuchTagSet"),
		wantCode(lock, "ObjectLockConfigurationNotFoundError"),
	)
}

func (b *bench) putAndGet() error {
	_, err := b.put("hello.txt", "hello", minio.PutObjectOptions{
		ContentType:  "text/plain",
		CacheControl: "no-cache",
		UserMetadata: map[string]string{"Colour": "red", "Size": "two  words"},
		UserTags:     map[string]string{"team": "lake"},
	})
	if err != nil {
		return err
	}
	_, empty := b.put("empty", "", minio.PutObjectOptions{})
	_, md5 := b.put("md5.txt", "digest", minio.PutObjectOptions{SendContentMd5: true})
	return errors.Join(
		empty, md5, b.wantContent("hello.txt", "hello"), b.wantContent("empty", ""), b.wantContent("md5.txt", "digest"))
}

func (b *bench) putWithoutLength() error {
	_, err := b.client.PutObject(
		b.context, b.bucket, b.prefix+"stream", io.MultiReader(strings.NewReader("stre"), strings.NewReader("am")), -1,
		minio.PutObjectOptions{PartSize: partBytes})
	return errors.Join(err, b.wantContent("stream", "stream"))
}

func (b *bench) awkwardNames() error {
	if _, err := b.put(awkward, "awkward", minio.PutObjectOptions{}); err != nil {
		return err
	}
	if err := b.wantContent(awkward, "awkward"); err != nil {
		return err
	}
	_, err := b.client.CopyObject(b.context,
		minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + "copy of " + awkward},
		minio.CopySrcOptions{Bucket: b.bucket, Object: b.prefix + awkward})
	return errors.Join(err, b.wantContent("copy of "+awkward, "awkward"))
}

func (b *bench) stat() error {
	info, err := b.client.StatObject(b.context, b.bucket, b.prefix+"hello.txt", minio.StatObjectOptions{})
	if err != nil {
		return err
	}
	return errors.Join(
		want("size", info.Size, 5),
		want("ETag", info.ETag, "5d41402abc4b2a76b9719d911017c592"),
		want("content type", info.ContentType, "text/plain"),
		want("colour", info.UserMetadata["Colour"], "red"),
		want("number of tags", info.UserTagCount, 1),
	)
}

func (b *bench) conditions() error {
	fresh := minio.GetObjectOptions{}
	if err := fresh.SetMatchETagExcept("5d41402abc4b2a76b9719d911017c592"); err != nil {
		return err
	}
	_, unchanged := b.content("hello.txt", fresh)
	stale := minio.GetObjectOptions{}
	if err := stale.SetMatchETag("00000000000000000000000000000000"); err != nil {
		return err
	}
	_, changed := b.content("hello.txt", stale)
	once := minio.PutObjectOptions{}
	once.SetMatchETagExcept("*")
	_, again := b.put("hello.txt", "other", once)
	return errors.Join(
		want("status", minio.ToErrorResponse(unchanged).StatusCode, 304),
		wantCode(changed, "PreconditionFailed"), wantCode(again, "PreconditionFailed"))
}

func (b *bench) byteRange() error {
	options := minio.GetObjectOptions{}
	if err := options.SetRange(1, 3); err != nil {
		return err
	}
	got, err := b.content("hello.txt", options)
	return errors.Join(err, want("bytes", got, "ell"))
}

func (b *bench) list() error {
	var failed error
	for _, options := range []minio.ListObjectsOptions{
		{Prefix: b.prefix + "list/", Recursive: true},
		{Prefix: b.prefix + "list/", Recursive: true, UseV1: true},
		{Prefix: b.prefix + "list/", Recursive: true, MaxKeys: 1},
		{Prefix: b.prefix + "list/", Recursive: true, WithMetadata: true},
	} {
		for _, name := range []string{"list/a b", "list/c/d+e", "list/ü"} {
			if _, err := b.put(name, "x", minio.PutObjectOptions{}); err != nil {
				return err
			}
		}
		got := b.names(options)
		failed = errors.Join(failed, want("names", got, []string{"list/a b", "list/c/d+e", "list/ü"}))
		options.Recursive = false
		failed = errors.Join(failed, want("folders", b.names(options), []string{"list/a b", "list/c/", "list/ü"}))
	}
	return failed
}

func (b *bench) names(options minio.ListObjectsOptions) []string {
	var names []string
	for object := range b.client.ListObjects(b.context, b.bucket, options) {
		if object.Err != nil {
			return []string{describe(object.Err)}
		}
		names = append(names, strings.TrimPrefix(object.Key, b.prefix))
	}
	sort.Strings(names)
	return names
}

func (b *bench) copy() error {
	source := minio.CopySrcOptions{Bucket: b.bucket, Object: b.prefix + "hello.txt"}
	_, plain := b.client.CopyObject(b.context, minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + "copied"}, source)
	_, replaced := b.client.CopyObject(b.context, minio.CopyDestOptions{
		Bucket: b.bucket, Object: b.prefix + "replaced", ReplaceMetadata: true,
		UserMetadata: map[string]string{"Colour": "blue"},
		ReplaceTags:  true, UserTags: map[string]string{"a": "1", "b": "2"},
	}, source)
	info, err := b.client.StatObject(b.context, b.bucket, b.prefix+"replaced", minio.StatObjectOptions{})
	source.MatchETag = "00000000000000000000000000000000"
	_, refused := b.client.CopyObject(b.context, minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + "no"}, source)
	return errors.Join(
		plain, replaced, err, b.wantContent("copied", "hello"),
		want("colour", info.UserMetadata["Colour"], "blue"), want("number of tags", info.UserTagCount, 2),
		wantCode(refused, "PreconditionFailed"))
}

func (b *bench) tags() error {
	given, err := tags.NewTags(map[string]string{"k + l": "v = w"}, true)
	if err != nil {
		return err
	}
	name := b.prefix + "copied"
	put := b.client.PutObjectTagging(b.context, b.bucket, name, given, minio.PutObjectTaggingOptions{})
	kept, got := b.client.GetObjectTagging(b.context, b.bucket, name, minio.GetObjectTaggingOptions{})
	if err := errors.Join(put, got); err != nil {
		return err
	}
	removed := b.client.RemoveObjectTagging(b.context, b.bucket, name, minio.RemoveObjectTaggingOptions{})
	return errors.Join(removed, want("tags", kept.ToMap(), given.ToMap()))
}

func (b *bench) attributes() error {
	found, err := b.client.GetObjectAttributes(b.context, b.bucket, b.prefix+"hello.txt", minio.ObjectAttributesOptions{})
	if err != nil {
		return err
	}
	return want("size", found.ObjectSize, 5)
}

func (b *bench) multipart() error {
	body := bytes.Repeat([]byte("0123456789abcdef"), (2*partBytes+1000)/16)
	put, err := b.client.PutObject(
		b.context, b.bucket, b.prefix+"large", bytes.NewReader(body), int64(len(body)),
		minio.PutObjectOptions{PartSize: partBytes, NumThreads: 2, UserMetadata: map[string]string{"Kind": "parts"}})
	if err != nil {
		return err
	}
	info, err := b.client.StatObject(b.context, b.bucket, b.prefix+"large", minio.StatObjectOptions{})
	return errors.Join(
		err, b.wantContent("large", string(body)), want("ETag", info.ETag, put.ETag),
		want("kind", info.UserMetadata["Kind"], "parts"), want("parts", strings.HasSuffix(put.ETag, "-3"), true))
}

func (b *bench) compose() error {
	source := minio.CopySrcOptions{Bucket: b.bucket, Object: b.prefix + "large"}
	_, err := b.client.ComposeObject(b.context,
		minio.CopyDestOptions{Bucket: b.bucket, Object: b.prefix + "composed"}, source, source)
	if err != nil {
		return err
	}
	one, oneErr := b.client.StatObject(b.context, b.bucket, b.prefix+"large", minio.StatObjectOptions{})
	two, twoErr := b.client.StatObject(b.context, b.bucket, b.prefix+"composed", minio.StatObjectOptions{})
	return errors.Join(oneErr, twoErr, want("size", two.Size, 2*one.Size))
}

func (b *bench) incomplete() error {
	core := minio.Core{Client: b.client}
	name := b.prefix + "left/" + awkward
	id, err := core.NewMultipartUpload(b.context, b.bucket, name, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	part, err := core.PutObjectPart(
		b.context, b.bucket, name, id, 1, strings.NewReader("part"), 4, minio.PutObjectPartOptions{})
	if err != nil {
		return err
	}
	parts, err := core.ListObjectParts(b.context, b.bucket, name, id, 0, 10)
	if err != nil {
		return err
	}
	var open []string
	for upload := range b.client.ListIncompleteUploads(b.context, b.bucket, b.prefix+"left/", true) {
		if upload.Err != nil {
			return upload.Err
		}
		open = append(open, upload.Key)
	}
	removed := b.client.RemoveIncompleteUpload(b.context, b.bucket, name)
	return errors.Join(
		removed, want("open uploads", open, []string{name}), want("parts", len(parts.ObjectParts), 1),
		want("ETag", strings.Trim(parts.ObjectParts[0].ETag, `"`), strings.Trim(part.ETag, `"`)))
}

func (b *bench) presign() error {
	put, err := b.client.PresignedPutObject(b.context, b.bucket, b.prefix+"presigned "+awkward, time.Minute)
	if err != nil {
		return err
	}
	if err := b.fetch(http.MethodPut, put, "by link", ""); err != nil {
		return err
	}
	get, err := b.client.PresignedGetObject(b.context, b.bucket, b.prefix+"presigned "+awkward, time.Minute, nil)
	if err != nil {
		return err
	}
	head, err := b.client.PresignedHeadObject(b.context, b.bucket, b.prefix+"presigned "+awkward, time.Minute, nil)
	if err != nil {
		return err
	}
	return errors.Join(b.fetch(http.MethodGet, get, "", "by link"), b.fetch(http.MethodHead, head, "", ""))
}

func (b *bench) presignOverrides() error {
	overrides := url.Values{
		"response-content-type":        {"text/csv; charset=utf-8"},
		"response-content-disposition": {`attachment; filename="a b+c.csv"`},
	}
	get, err := b.client.PresignedGetObject(b.context, b.bucket, b.prefix+"hello.txt", time.Minute, overrides)
	if err != nil {
		return err
	}
	answer, err := http.Get(get.String())
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return errors.Join(
		want("status", answer.StatusCode, 200),
		want("content type", answer.Header.Get("Content-Type"), overrides.Get("response-content-type")),
		want("disposition", answer.Header.Get("Content-Disposition"), overrides.Get("response-content-disposition")))
}

func (b *bench) fetch(method string, place *url.URL, body, expected string) error {
	request, err := http.NewRequestWithContext(b.context, method, place.String(), strings.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	return errors.Join(err, want(method+" status", answer.StatusCode, 200), want(method+" body", string(got), expected))
}

func (b *bench) remove() error {
	if err := b.client.RemoveObject(b.context, b.bucket, b.prefix+awkward, minio.RemoveObjectOptions{}); err != nil {
		return err
	}
	_, err := b.content(awkward, minio.GetObjectOptions{})
	return wantCode(err, "NoSuchKey")
}

func (b *bench) removeMany() error {
	gone := make(chan minio.ObjectInfo)
	go func() {
		defer close(gone)
		for object := range b.client.ListObjects(
			b.context, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix + "list/", Recursive: true}) {
			gone <- object
		}
	}()
	for refused := range b.client.RemoveObjects(b.context, b.bucket, gone, minio.RemoveObjectsOptions{}) {
		return refused.Err
	}
	left := b.names(minio.ListObjectsOptions{Prefix: b.prefix + "list/", Recursive: true})
	return want("left", len(left), 0)
}

func (b *bench) missing() error {
	_, key := b.content("no such object", minio.GetObjectOptions{})
	_, branch := b.client.PutObject(
		b.context, b.bucket, "no-such-branch/x", strings.NewReader("x"), 1, minio.PutObjectOptions{})
	_, encrypted := b.put("sse", "x", minio.PutObjectOptions{ServerSideEncryption: encrypt.NewSSE()})
	return errors.Join(wantCode(key, "NoSuchKey"), wantCode(branch, "NoSuchBranch"), encrypted)
}
