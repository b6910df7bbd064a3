//go:build unix

package objects

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/azurebucket"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
	"github.com/pawlproject/pawl/guard/objguard/probe"
	"github.com/pawlproject/pawl/internal/testpostgres"
)

// The account that azurite is told, and its key.
var (
	azureAccount = "account"
	azureKey     = base64.StdEncoding.EncodeToString([]byte("a key of some length"))
)

// azureSchedules is how many schedules are run on azurite, of each kind, where
// schedulesEnv does not say more: it is slow.
const azureSchedules = 30

// azure is an emulator of Azure Blob Storage, started once for all tests.
type azure struct {
	url        string
	containers atomic.Int64
}

var azurite = sync.OnceValues(startAzurite)

func startAzurite() (*azure, error) {
	program, err := filepath.Abs("../../.bin/azurite/node_modules/azurite/dist/src/blob/main.js")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	as := func(cmd *exec.Cmd, _ string) {
		cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+azureAccount+":"+azureKey)
	}
	p, err := testpostgres.StartProcess(as, "", "successfully listens", "KILL", "node", program,
		"--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence", "--blobPort", fmt.Sprint(port))
	if err != nil {
		return nil, err
	}
	running = append(running, p.Stop)
	return &azure{url: fmt.Sprintf("http://127.0.0.1:%d/%s", port, azureAccount)}, nil
}

func startedAzurite(t testing.TB) *azure {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: azurite is fetched by make pinned")
	}
	a, err := azurite()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// client is a client of a container, over a transport of its own.
func (a *azure) client(t testing.TB, name string, over http.RoundTripper) *container.Client {
	t.Helper()
	key, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	o := &container.ClientOptions{}
	o.Transport = &http.Client{Transport: over}
	o.Retry = policy.RetryOptions{MaxRetries: 3}
	c, err := container.NewClientWithSharedKeyCredential(a.url+"/"+name, key, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fresh makes a container that holds nothing, and returns its name.
func (a *azure) fresh(t testing.TB, over http.RoundTripper) string {
	t.Helper()
	name := fmt.Sprintf("container-%d", a.containers.Add(1))
	if _, err := a.client(t, name, over).Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestAzure(t *testing.T) {
	a := startedAzurite(t)
	over := connections()
	defer over.CloseIdleConnections()
	lapsed := azureLeases(t, a.client(t, a.fresh(t, over), over))
	t.Run("container of leased blobs", func(t *testing.T) { azureContainerGoes(t, a, over) })
	t.Run("bucket", func(t *testing.T) {
		buckettest.Run(t, func(t *testing.T) objguard.Bucket {
			return azurebucket.New(a.client(t, a.fresh(t, over), over))
		})
	})
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run(kind, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T) guardtest.Resource {
				r := &relay{over: over}
				b := azurebucket.New(a.client(t, a.fresh(t, over), r))
				return buckettest.Lists(objguard.New(b, "guards"), r.loseNext)[kind]
			})
		})
	}
	t.Run("probe", func(t *testing.T) {
		b := azurebucket.New(a.client(t, a.fresh(t, over), over))
		report, err := probe.Run(t.Context(), []objguard.Bucket{b}, "probe", probe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report {
			t.Logf("%-9s %s %s", r.Verdict, r.Property, r.Detail)
		}
		if !report.Safe() {
			t.Errorf("faults: %+v", report.Faults())
		}
	})
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run("lossy schedules of "+kind, func(t *testing.T) {
			name := a.fresh(t, over)
			lossy(t, over, func(r *relay) objguard.Bucket { return azurebucket.New(a.client(t, name, r)) }, kind, schedules(t, azureSchedules))
		})
	}
	t.Run("lapsed leases", lapsed)
}
