//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/testversity"
)

// bucketOf starts a store and returns what reaches its bucket.
func bucketOf(t *testing.T, version string) (dsn string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: versitygw is built by make pinned")
	}
	s, err := testversity.Start(version)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := s.MakeBucket("data"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", testversity.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testversity.SecretKey)
	return "s3://data/here?path_style=true&endpoint=" + s.URL
}

// A store that keeps its conditions is told from one that checks, then writes.
func TestGuardProbe(t *testing.T) {
	good := bucketOf(t, "1.8")
	contains(t, want(t, 0, "guard", "probe", good).stdout, "objguard is safe here", "deletes keep conditions", "not kept, not needed")
	at, endpoint, _ := strings.Cut(good, "?path_style=true&endpoint=")
	r := want(t, 0, "guard", "probe", at, "--endpoint", endpoint, "--endpoint", endpoint, "--path-style", "--region", "us-east-1", "--json")
	if v := read[struct {
		Safe    bool
		Results []struct{ Property, Verdict string }
	}](t, r.stdout); !v.Safe || len(v.Results) != 10 {
		t.Errorf("the report is %+v", v)
	}
	contains(t, want(t, exit.CodeOther, "guard", "probe", good, "--need", "delete").stderr, "not safe", "deletes keep conditions")

	bad := want(t, exit.CodeOther, "guard", "probe", bucketOf(t, "1.7"))
	contains(t, bad.stdout, "objguard is NOT safe here", "FAULT")
	contains(t, bad.stderr, "one of many")

	want(t, exit.CodeUnavailable, "guard", "probe", "s3://data/here", "--path-style", "--endpoint", "http://"+closedPort(t))
	none := want(t, exit.CodeUnavailable, "guard", "probe", strings.Replace(good, "data", "none", 1)).stderr
	contains(t, none, "NoSuchBucket", "; the bucket must exist")
	if strings.Contains(none, "clean up") {
		t.Errorf("one fault is told twice: %s", none)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	want(t, exit.CodeDenied, "guard", "probe", good)
}

// What is missing before the first request is told with what to set.
func TestGuardProbeSaysWhatToSet(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
	nothing := writeFile(t, "aws", "")
	t.Setenv("AWS_CONFIG_FILE", nothing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", nothing)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	contains(t, want(t, exit.CodeUsage, "guard", "probe", "s3://data/here").stderr, "no region is known: set AWS_REGION")
	contains(t, want(t, exit.CodeUsage, "guard", "seen", "r", "--dsn", "s3://data/here").stderr, "no region is known: set AWS_REGION")
	r := want(t, exit.CodeUnavailable, "guard", "probe", "s3://data/here", "--path-style", "--endpoint", "http://"+closedPort(t))
	contains(t, r.stderr, "no credentials for the store", "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")
}

// The marks of a bucket are seen and raised like those of a database, and claimed by run.
func TestGuardOfABucket(t *testing.T) {
	dsn := bucketOf(t, "1.8")
	contains(t, want(t, 0, "guard", "seen", "r", "--dsn", dsn).stdout, "no token yet")
	want(t, 0, "guard", "claim", "r", "--token", "7", "--cell", "c", "--dsn", dsn)
	if m := seenAt(t, dsn, "r"); m.FencingToken != "7" || m.Cell != "c" {
		t.Errorf("the mark is %+v", m)
	}
	want(t, exit.CodeLost, "guard", "claim", "r", "--token", "6", "--cell", "c", "--dsn", dsn)
	want(t, exit.CodeOther, "guard", "claim", "r", "--token", "8", "--cell", "d", "--dsn", dsn)

	s := serve(t, "--store", "memory")
	r := finish(t, s.command("run", "job", "--claim", dsn, "--", "sh", "-c", "echo $PAWL_FENCE"))
	if m := seenAt(t, dsn, "job"); r.code != 0 || m.FencingToken != strings.TrimSpace(r.stdout) {
		t.Errorf("run ended with %+v, the mark is %+v", r, m)
	}
}
