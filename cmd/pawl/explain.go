package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/internal/fencing/table"
)

func newExplain() *cobra.Command {
	var store, strategy, operation string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Say what keeps an old holder out where nothing checks a token",
		Long: `Explain says how far compare-and-set, leases of a store, deadlines and other means
carry where the resource checks no fencing token: what is safe, what is safe on which
condition, and what breaks. With --store it says first what to do with the store that
you have, with --operation on which conditions it is safe, with --strategy also what
happens without them, in steps. It asks no server.

A checker has found this by trying every order of steps of three holders; its bounds
are in docs/fencing-without-a-fence.md.

Exit codes: 0 done, 64 invalid usage.`,
		Example: `  pawl explain --store s3
  pawl explain --store s3 --operation append
  pawl explain --strategy deadline --operation overwrite
  pawl explain --json | jq -r '.[] | select(.verdict == "safe") | .strategy'`,
		Args: flags.Unknown,
	}
	f := cmd.Flags()
	f.StringVar(&store, "store", "", "the store that you have, such as s3, gcs, azure or http")
	f.StringVar(&strategy, "strategy", "", "one strategy, such as cas-claim or deadline")
	f.StringVar(&operation, "operation", "", "one operation: create, overwrite, append, delete, multi or effect")
	f.BoolVar(&asJSON, "json", false, "print a list in JSON, an entry for each strategy and operation")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		t, err := table.Recorded()
		if err != nil {
			return err
		}
		e, err := choose(cmd, t, store, strategy, operation)
		if err != nil {
			return err
		}
		if asJSON {
			return output.JSON(cmd.OutOrStdout(), e.bodies())
		}
		return e.print(cmd.OutOrStdout())
	}
	return cmd
}

// legend says what the words of the table mean.
const legend = `
if: safe on conditions, which --operation NAME tells; -: does not apply.
create: an object that must not be there; overwrite: what was read; append: an entry that
later holders must find; delete: while another writes; multi: two objects that belong
together; effect: read, then act outside of the store (a charge, a mail).
`

// explained is what "pawl explain" was asked for.
type explained struct {
	table      table.Table
	store      *table.Store
	strategies []string
	operations []string
	whole      bool // with conditions
	steps      bool // with steps
}

// storesLike are what people call their store, with the key of what it is like.
var storesLike = map[string]string{
	"postgresql": "postgres", "minio": "s3", "ceph": "s3", "r2": "s3", "seaweedfs": "s3",
	"kafka": "queue", "pulsar": "queue", "nats": "queue", "scylladb": "cassandra", "scylla": "cassandra", "nfs": "files",
}

// choose finds what is meant, or says which words are known.
func choose(cmd *cobra.Command, t table.Table, store, strategy, operation string) (*explained, error) {
	store = cmp.Or(storesLike[strings.ToLower(store)], store)
	e := &explained{table: t, whole: strategy != "" || operation != "", steps: strategy != ""}
	var stores []string
	for _, s := range t.Stores {
		stores = append(stores, s.Key)
	}
	for _, s := range t.Strategies {
		e.strategies = append(e.strategies, s.Key)
	}
	for _, c := range t.Cells {
		if !slices.Contains(e.operations, c.Operation) {
			e.operations = append(e.operations, c.Operation)
		}
	}
	for _, asked := range []struct {
		flag, word string
		known      []string
	}{{"store", store, stores}, {"strategy", strategy, e.strategies}, {"operation", operation, e.operations}} {
		if cmd.Flags().Changed(asked.flag) && !slices.Contains(asked.known, asked.word) {
			return nil, exit.Usage(cmd, "--%s is %.40q; expected one of %s", asked.flag, asked.word, strings.Join(asked.known, ", "))
		}
	}
	if s, ok := t.Store(store); ok {
		e.store, e.strategies = &s, s.Strategies
	}
	if strategy != "" {
		e.strategies = []string{strategy}
	}
	if operation != "" {
		e.operations = []string{operation}
	}
	return e, nil
}

// cells are those that were asked for, in the order of the strategies.
func (e *explained) cells() []table.Cell {
	var cells []table.Cell
	for _, s := range e.strategies {
		for _, op := range e.operations {
			for _, c := range e.table.Cells {
				if c.Strategy == s && c.Operation == op {
					cells = append(cells, c)
				}
			}
		}
	}
	return cells
}

// verdictBody is a verdict as JSON. Trace has the fewest steps that break a promise: where
// the verdict is "if", of the first condition that is left out.
type verdictBody struct {
	Strategy  string   `json:"strategy"`
	Operation string   `json:"operation"`
	Verdict   string   `json:"verdict"`
	Condition string   `json:"condition"`
	Trace     []string `json:"trace"`
}

// bodies leaves out what does not apply.
func (e *explained) bodies() []verdictBody {
	all := []verdictBody{}
	for _, c := range e.cells() {
		if c.Verdict == "" {
			continue
		}
		b := verdictBody{Strategy: c.Strategy, Operation: c.Operation, Verdict: c.Verdict, Trace: []string{}}
		var conditions []string
		for i, l := range c.Lacks {
			if l.Condition != "" {
				conditions = append(conditions, l.Condition)
			}
			if i == 0 {
				b.Trace = append(slices.Clone(l.Trace), l.Fault)
			}
		}
		b.Condition = strings.Join(conditions, "; and ")
		all = append(all, b)
	}
	return all
}

func (e *explained) print(w io.Writer) error {
	var b strings.Builder
	switch {
	case e.store != nil:
		fmt.Fprintf(&b, "%s\n\n  Do: %s\n  Not promised then: %s\n\n", e.store.Name, e.store.Do, e.store.Leaves)
	case !e.whole:
		b.WriteString("Which store do you have? Ask again with --store:\n\n")
		for _, s := range e.table.Stores {
			fmt.Fprintf(&b, "  %-12s %s\n", s.Key, s.Name)
		}
		b.WriteString("\nOr find what you do today:\n\n")
	}
	if e.whole {
		for _, c := range e.cells() {
			if e.steps || c.Verdict != "" {
				e.printCell(&b, c)
			}
		}
		if !e.steps {
			fmt.Fprintf(&b, "%q shows what happens otherwise, in steps.\n", "pawl explain --strategy NAME --operation "+e.operations[0])
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	if e.whole {
		return nil
	}
	if err := output.Table(w, e.rows()); err != nil {
		return err
	}
	if _, err := io.WriteString(w, legend); err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// rows are the table of verdicts.
func (e *explained) rows() [][]string {
	head := []string{"STRATEGY"}
	for _, op := range e.operations {
		head = append(head, strings.ToUpper(op))
	}
	head = append(head, "WHAT IT IS")
	rows := [][]string{head}
	for _, s := range e.strategies {
		row := []string{s}
		for _, c := range e.cells() {
			if c.Strategy == s {
				verdict := c.Verdict
				if verdict == "" {
					verdict = "-"
				}
				row = append(row, verdict)
			}
		}
		known, _ := e.table.Strategy(s)
		rows = append(rows, append(row, known.Name))
	}
	return rows
}

func (e *explained) printCell(b *strings.Builder, c table.Cell) {
	s, _ := e.table.Strategy(c.Strategy)
	fmt.Fprintf(b, "%s, %s: %s\n  %s\n", c.Strategy, c.Operation, verdictText(c), s.How)
	for _, l := range c.Lacks {
		switch {
		case l.Condition != "" && e.steps:
			fmt.Fprintf(b, "\n  Safe only if %s. Otherwise:\n", l.Condition)
		case l.Condition != "":
			fmt.Fprintf(b, "  Safe only if %s.\n", l.Condition)
			continue
		case !e.steps:
			fmt.Fprintf(b, "  What happens: %s.\n", l.Fault)
			continue
		default:
			b.WriteString("\n  What happens:\n")
		}
		for i, step := range l.Trace {
			fmt.Fprintf(b, "    %2d. %s\n", i+1, step)
		}
		fmt.Fprintf(b, "    => %s\n", l.Fault)
	}
	b.WriteString("\n")
}

func verdictText(c table.Cell) string {
	switch c.Verdict {
	case table.Safe:
		return "safe"
	case table.If:
		if len(c.Lacks) == 1 {
			return "safe if (1 condition)"
		}
		return fmt.Sprintf("safe if (%d conditions)", len(c.Lacks))
	case table.Unsafe:
		return "unsafe"
	}
	return "does not apply: " + c.None
}
