package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"sawlog/cmd/sawlog/output"
	"sawlog/loader/engine/kubernetes/kubetest"
)

// pods runs a job's tasks as pods, by a kubectl on the PATH, while pods are killed,
// doubled, put to sleep, and the driver dies or is stopped: the files are those of
// a load on this machine.
func (h *harmed) pods(above string) {
	c := kubetest.Start(h.t, kubetest.Conduct{})
	const engine = "run: {engine: kubernetes, kubernetes: {image: 'sawlog:test', host_network: true}}\n"
	on := func(name string, often bool, conduct kubetest.Conduct, act func(h *harmed, job string)) {
		if !often && !inSoak() {
			return
		}
		h.t.Run(name, func(t *testing.T) {
			here := h.in(t)
			c.Behave(conduct)
			root := above + "/" + name
			act(here, here.job(root, engine))
			c.Idle(t)
			here.whole(root) // pods that wake late change nothing
		})
	}
	load := func(h *harmed, job string) { h.committed(h.spawn(nil, "run", job, "-o", "json")) }
	on("killed", false, kubetest.Conduct{Harm: kubetest.Kill}, load)
	on("asleep", false, kubetest.Conduct{Twin: true, Harm: kubetest.Sleep}, load)

	on("by-plan", false, kubetest.Conduct{}, func(h *harmed, job string) {
		made := c.Made()
		plan := h.write("plan.json", string(h.run("plan", job, "-o", "json")))
		h.committed(h.spawn(nil, "run", "--plan", plan, "--job", job, "-o", "json"))
		if c.Made() == made {
			h.t.Error("the plan was not carried out by the job's engine")
		}
		made = c.Made()
		h.run("rerun", "0", "--job", job)
		if c.Made() == made {
			h.t.Error("the run was not made again by the job's engine")
		}
	})

	started := func(job string) *child {
		made := c.Made()
		driver := h.spawn(nil, "run", job)
		h.eventually("the Job was made", time.Minute, func() bool { return c.Made() > made })
		return driver
	}
	on("driver-dies", true, kubetest.Conduct{Harm: kubetest.Sleep}, func(h *harmed, job string) {
		driver := started(job)
		driver.killAll()
		driver.wait(time.Minute)
		made := c.Made()
		c.Behave(kubetest.Conduct{})
		next := h.spawn(nil, "run", job, "-v", "-o", "json")
		next.says("following it", time.Minute)
		c.Wake()
		h.committed(next)
		if more := c.Made() - made; more > 1 { // one for the splits whose columns the plan didn't know
			h.t.Errorf("%d Jobs more were made, where the first is to be followed", more)
		}
	})
	on("driver-is-stopped", false, kubetest.Conduct{Harm: kubetest.Sleep}, func(h *harmed, job string) {
		jobs := c.Jobs()
		driver := started(job)
		if err := driver.cmd.Process.Signal(syscall.SIGINT); err != nil {
			h.t.Fatal(err)
		}
		h.shortly(driver, output.Interrupted, "goes on with what is left", 15*time.Second) // pods that sleep are killed, after a while
		if c.Jobs() != jobs {
			h.t.Errorf("%d Jobs are left, want the %d there were", c.Jobs(), jobs)
		}
		c.Behave(kubetest.Conduct{})
		load(h, job)
	})
	on("a-quota", false, kubetest.Conduct{}, func(h *harmed, job string) {
		before := c.Ends()
		folder := strings.TrimPrefix(above, h.uri("")) + "/a-quota"
		h.c.Do("mkdir %s 755", folder)
		h.c.Do("quota %s 30", folder)
		h.shortly(h.spawn(nil, "run", job), output.Conflict, "of directory "+folder+" is exceeded", time.Minute)
		refused := func(codes []int) (n int) {
			for _, code := range codes {
				if code == output.Conflict {
					n++
				}
			}
			return n
		}
		if n := refused(c.Ends()) - refused(before); n < 1 || n > 3 {
			h.t.Errorf("the 3 splits ended %d times in a way that no other attempt can cure: %v", n, c.Ends())
		}
		h.c.Do("quota %s 1000000", folder)
		load(h, job)
	})
}
