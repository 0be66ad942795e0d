package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is the scheme of objects in Amazon S3, or in a service with its API.
const S3 = "s3"

// signedFor is the validity of a signed URL: longer than all tries of Get take.
const signedFor = time.Hour

// metadataPatience is the timeout of requests to Amazon's metadata service, which exists only on
// Amazon's machines.
const metadataPatience = 2 * time.Second

// Sign returns a URL from which Get reads the object at s3://BUCKET/KEY. As Amazon's tools do, it
// takes the service from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL (default: Amazon's), the region
// from AWS_REGION or AWS_DEFAULT_REGION (default: it asks the service), and credentials from the
// environment, the file ~/.aws/credentials, or the role of the machine or the container. Without
// credentials, the URL is unsigned.
func Sign(ctx context.Context, getenv func(string) (string, bool), source string) (string, error) {
	u, err := url.Parse(source)
	if err != nil || u.Scheme != S3 || u.Host == "" || strings.Trim(u.Path, "/") == "" || u.RawQuery != "" || u.User != nil {
		return "", errors.New("want s3://BUCKET/KEY")
	}
	value := func(names ...string) (found string) {
		for _, name := range names {
			if v, _ := getenv(name); found == "" {
				found = v
			}
		}
		return found
	}
	endpoint := cmp.Or(value("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "https://s3.amazonaws.com")
	service, err := url.Parse(endpoint)
	if err != nil || service.Host == "" || service.Scheme != "http" && service.Scheme != "https" || strings.Trim(service.Path, "/") != "" {
		return "", errors.New("AWS_ENDPOINT_URL is not the URL of a service, such as https://s3.example.org")
	}
	chain := credentials.NewChainCredentials([]credentials.Provider{
		&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: &http.Client{Timeout: metadataPatience}},
	})
	region := value("AWS_REGION", "AWS_DEFAULT_REGION")
	client, err := minio.New(service.Host, &minio.Options{
		Creds: chain, Secure: service.Scheme == "https", Region: region, Transport: transport(), MaxRetries: defaultTries,
	})
	if err != nil {
		return "", fmt.Errorf("AWS_ENDPOINT_URL: %w", err)
	}
	bucket, key := u.Host, strings.TrimPrefix(u.Path, "/")
	if known, err := client.GetCreds(); err != nil || known.SignerType.IsAnonymous() {
		return service.JoinPath(bucket, key).String(), nil //nolint:nilerr // the object may be public
	}
	signed, err := client.PresignedGetObject(ctx, bucket, key, signedFor, nil)
	if err != nil {
		return "", explain(err)
	}
	return signed.String(), nil
}

// explain returns the error that the service answered, without the request.
func explain(err error) error {
	if answer := minio.ToErrorResponse(err); answer.Code != "" && answer.Message != "" {
		return &StatusError{answer.StatusCode, answer.Code + ": " + answer.Message}
	}
	return plainError(err)
}
