package s3bucket

import (
	"encoding/json"
	"errors"
	"strings"
)

// Policy returns a bucket policy of Amazon's S3 as JSON, for what lies in a bucket below a
// prefix as objguard.New takes it (empty: everything). It denies to everybody, whatever else allows it:
//
//   - an upload that carries neither If-Match nor If-None-Match. The parts of a multipart
//     upload carry none and are let through; its completion is not.
//   - the deletion of a pointer.
//
// What it costs: CopyObject below the prefix is denied too, unless it carries a condition,
// which not every program can add. The console and "aws s3 cp" no longer upload there.
//
// Join its statements with those that the bucket has: a bucket has one policy.
func Policy(bucket, prefix string) ([]byte, error) {
	if bucket == "" {
		return nil, errors.New("s3bucket: no bucket")
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	arn := "arn:aws:s3:::" + bucket + "/" + prefix
	type statement struct {
		Sid       string
		Effect    string
		Principal string
		Action    []string
		Resource  []string
		Condition map[string]map[string]string `json:",omitempty"`
	}
	b, err := json.MarshalIndent(struct {
		Version   string
		Statement []statement
	}{"2012-10-17", []statement{
		{
			Sid: "PawlNoWriteWithoutCondition", Effect: "Deny", Principal: "*",
			Action: []string{"s3:PutObject"}, Resource: []string{arn + "*"},
			Condition: map[string]map[string]string{
				"Null": {"s3:if-match": "true", "s3:if-none-match": "true"},
				"Bool": {"s3:ObjectCreationOperation": "true"},
			},
		},
		{
			Sid: "PawlPointersStay", Effect: "Deny", Principal: "*",
			Action:   []string{"s3:DeleteObject", "s3:DeleteObjectVersion"},
			Resource: []string{arn + "*/pawl=pointer", arn + "*/pawl=log-pointer"},
		},
	}}, "", "  ")
	return append(b, '\n'), err
}
