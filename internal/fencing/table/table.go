package table

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// The verdicts. A cell whose strategy does not apply has none.
const (
	Safe   = "safe"
	If     = "if"
	Unsafe = "unsafe"
)

// Table is what the checker has found, and what it means for each store.
type Table struct {
	Strategies []Strategy `json:"strategies"`
	Stores     []Store    `json:"stores"`
	Cells      []Cell     `json:"cells"`
}

// Strategy is a way to keep an old holder's work out.
type Strategy struct {
	Key  string `json:"strategy"`
	Name string `json:"name"`
	How  string `json:"how"` // what is done, in a sentence or two
}

// Store is where the work is done, with the strategies that it allows.
type Store struct {
	Key        string   `json:"store"`
	Name       string   `json:"name"`
	Do         string   `json:"do"`     // what to do, in a sentence or two
	Leaves     string   `json:"leaves"` // what is not promised then
	Strategies []string `json:"strategies"`
}

// Cell is the verdict on a strategy for an operation.
type Cell struct {
	Strategy  string `json:"strategy"`
	Operation string `json:"operation"`
	Verdict   string `json:"verdict,omitempty"`
	None      string `json:"none,omitempty"` // why the strategy does not apply; Verdict is empty then
	States    int    `json:"states,omitempty"`
	Faults    string `json:"faults,omitempty"` // what may go wrong in one run
	// Lacks are the counter-examples: one for each condition that is left out, or for an
	// unsafe cell the one that is there although all its conditions hold.
	Lacks []Lack `json:"lacks,omitempty"`
}

// Lack is what happens where a condition does not hold.
type Lack struct {
	Key       string   `json:"key,omitempty"`
	Condition string   `json:"condition,omitempty"` // completes "safe if"; empty in an unsafe cell
	Fault     string   `json:"fault"`               // the promise that is broken
	Trace     []string `json:"trace"`               // the fewest steps that break it
	States    int      `json:"states"`
	Figure    string   `json:"figure,omitempty"` // a file below docs/fencing
}

//go:embed table.json
var recorded []byte

// Recorded returns the table that is part of this program.
func Recorded() (Table, error) {
	var t Table
	if err := json.Unmarshal(recorded, &t); err != nil {
		return Table{}, fmt.Errorf("read the recorded table: %w", err)
	}
	return t, nil
}

// Strategy finds a strategy by its key.
func (t Table) Strategy(key string) (Strategy, bool) {
	for _, s := range t.Strategies {
		if s.Key == key {
			return s, true
		}
	}
	return Strategy{}, false
}

// Store finds a store by its key.
func (t Table) Store(key string) (Store, bool) {
	for _, s := range t.Stores {
		if s.Key == key {
			return s, true
		}
	}
	return Store{}, false
}
