package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/guard/objguard/probe"
)

// probeMax bounds a probe. On a store that answers within milliseconds it takes seconds.
const probeMax = 2 * time.Minute

// probeNeeds are the words of --need.
var probeNeeds = []struct{ word, property string }{
	{"multipart", probe.Parts}, {"delete", probe.Deletes}, {"etag", probe.OtherTag},
}

// probeBody is the report in JSON.
type probeBody struct {
	Safe    bool         `json:"safe"`
	Results probe.Report `json:"results"`
}

func newGuardProbe() *cobra.Command {
	var endpoints, needs []string
	var region string
	var pathStyle, asJSON bool
	cmd := &cobra.Command{
		Use:   "probe s3://BUCKET/PREFIX",
		Short: "Try whether an object store keeps its conditions, so that objguard is safe on it",
		Long: `Probe writes and deletes objects below a random name under PREFIX and tells which
conditions the store keeps: that a create of what exists and an overwrite of an older
version are refused, that one of many racing writers wins, that a lost answer can be
resolved. Many stores that speak S3 do not keep them, or not under races. What objguard
does not need is told as well; --need multipart, delete or etag makes it count.

A race that did not show is no proof. Run the probe again after an upgrade of the store,
and after a failover. With several --endpoint the writers use them in turn.

Credentials, region and endpoint come from AWS's environment variables and files
(AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_ENDPOINT_URL and so on), unless a flag or
"?endpoint=URL&region=NAME&path_style=true" behind PREFIX says otherwise.

Exit codes: 0 objguard is safe here, 1 it is not, 64 invalid usage, 69 the store is
unreachable or gave no answer, 77 it does not allow what the probe does.`,
		Example: "  pawl guard probe s3://my-bucket/probe\n  pawl guard probe s3://data/probe --endpoint http://127.0.0.1:7070 --path-style --json",
		Args:    flags.Names("s3://BUCKET/PREFIX"),
	}
	f := cmd.Flags()
	f.StringArrayVar(&endpoints, "endpoint", nil, "URL of the store, where it is not Amazon's; repeat it for several ways to it")
	f.StringVar(&region, "region", "", "region of the bucket")
	f.BoolVar(&pathStyle, "path-style", false, "name the bucket in the path of the URL, as most stores besides Amazon's need it")
	f.StringArrayVar(&needs, "need", nil, "what else must be kept: multipart, delete or etag; may be repeated")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := guarddb.ParseS3(args[0])
		if err != nil {
			return exit.Usage(cmd, "%v", err)
		}
		for _, e := range endpoints {
			if err := guarddb.CheckEndpoint(e); err != nil {
				return exit.Usage(cmd, "--endpoint: %v", err)
			}
		}
		var o probe.Options
		for _, n := range needs {
			property := ""
			for _, known := range probeNeeds {
				if known.word == n {
					property = known.property
				}
			}
			if property == "" {
				return exit.Usage(cmd, "--need is %.40q; expected multipart, delete or etag", n)
			}
			o.Need = append(o.Need, property)
		}
		if len(endpoints) > 0 {
			at.Endpoints = endpoints
		}
		if region != "" {
			at.Region = region
		}
		at.PathStyle = at.PathStyle || pathStyle
		report, err := probed(cmd, at, o)
		if err != nil {
			return err
		}
		if asJSON {
			err = output.JSON(cmd.OutOrStdout(), probeBody{report.Safe(), report})
		} else {
			err = output.Table(cmd.OutOrStdout(), probeTable(report))
		}
		if err != nil || report.Safe() {
			return err
		}
		var faults []string
		for _, r := range report.Faults() {
			faults = append(faults, fmt.Sprintf("%s (%s)", r.Property, output.Text(r.Detail)))
		}
		return exit.Failed(exit.CodeOther, "objguard is not safe on this store; it does not have: %s", strings.Join(faults, "; "))
	}
	return cmd
}

func probed(cmd *cobra.Command, at guarddb.S3, o probe.Options) (probe.Report, error) {
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, probeMax)
	defer cancel()
	buckets, err := at.Buckets(bounded)
	if err != nil {
		return nil, exit.Usage(cmd, "%s", pgdsn.OneLine(err))
	}
	report, err := probe.Run(bounded, buckets, at.Prefix, o)
	switch {
	case err == nil:
		return report, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case bounded.Err() != nil:
		return nil, exit.Failed(exit.CodeUnavailable, "not finished after %v: %s", probeMax, pgdsn.OneLine(err))
	}
	code, advice := guarddb.ExplainS3(err)
	return nil, exit.Failed(code, "%s%s", pgdsn.OneLine(err), advice)
}

// probeTable shows what objguard needs and is not kept in capitals.
func probeTable(report probe.Report) [][]string {
	rows := [][]string{{"PROPERTY", "VERDICT", "WHAT IT MEANS"}}
	for _, r := range report {
		verdict, means := string(r.Verdict), r.Means
		if r.Verdict == probe.Broken {
			verdict = "not kept, not needed"
			if r.Needed {
				verdict = "FAULT"
			}
		}
		if r.Detail != "" {
			means += " (" + output.Text(r.Detail) + ")"
		}
		rows = append(rows, []string{r.Property, verdict, means})
	}
	if report.Safe() {
		return append(rows, []string{"objguard is safe here"})
	}
	return append(rows, []string{"objguard is NOT safe here"})
}
