package kubetest

import (
	"io"
	"net/http"
	"strings"

	"go.yaml.in/yaml/v4"
)

// routes are what a real kubectl asks an API server for when it creates, gets and
// deletes Jobs and lists pods: discovery, the one OpenAPI operation that tells it
// that the server validates fields, and the resources themselves.
func (c *Cluster) routes(mux *http.ServeMux) {
	fixed := func(path, answer string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, answer) // who asked may be gone
		})
	}
	fixed("/version", `{"major":"1","minor":"33","gitVersion":"v1.33.0"}`)
	fixed("/api", `{"kind":"APIVersions","versions":["v1"]}`)
	fixed("/api/v1", `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`)
	fixed("/apis", `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"batch","versions":[{"groupVersion":"batch/v1","version":"v1"}],"preferredVersion":{"groupVersion":"batch/v1","version":"v1"}}]}`)
	fixed("/apis/batch/v1", `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"batch/v1","resources":[{"name":"jobs","singularName":"job","namespaced":true,"kind":"Job","verbs":["create","delete","get","list","patch","watch"]}]}`)
	fixed("/openapi/v3", `{"paths":{"apis/batch/v1":{"serverRelativeURL":"/openapi/v3/apis/batch/v1"}}}`)
	fixed("/openapi/v3/apis/batch/v1", `{"openapi":"3.0.0","info":{"title":"Kubernetes","version":"v1.33.0"},"paths":{"/apis/batch/v1/namespaces/{namespace}/jobs/{name}":{"patch":{
		"parameters":[{"name":"fieldValidation","in":"query","schema":{"type":"string"}}],"responses":{},
		"x-kubernetes-action":"patch","x-kubernetes-group-version-kind":{"group":"batch","kind":"Job","version":"v1"}}}}}`)

	const jobs = "/apis/batch/v1/namespaces/{namespace}/jobs"
	mux.HandleFunc("POST "+jobs, c.locked(c.postJob))
	mux.HandleFunc("GET "+jobs, c.locked(func(r *http.Request) (any, *refused) { return c.listJobs(r), nil }))
	mux.HandleFunc("GET "+jobs+"/{name}", c.locked(func(r *http.Request) (any, *refused) {
		j, no := c.find(r.PathValue("name"))
		if no != nil {
			return nil, no
		}
		return j.object(), nil
	}))
	mux.HandleFunc("DELETE "+jobs+"/{name}", c.locked(func(r *http.Request) (any, *refused) {
		return map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"}, c.delete(r.PathValue("name"))
	}))
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", c.locked(func(r *http.Request) (any, *refused) {
		_, name, _ := strings.Cut(r.URL.Query().Get("labelSelector"), "=")
		j, no := c.find(name)
		if no != nil {
			return nil, no
		}
		return j.describePods(), nil
	}))
}

// locked answers with what act gives, or as the API refuses.
func (c *Cluster) locked(act func(*http.Request) (any, *refused)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		out, no := act(r)
		c.mu.Unlock()
		code := http.StatusOK
		if no != nil {
			code = no.Code
			out = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": no.Reason, "message": no.Message, "code": no.Code}
		}
		c.write(w, code, out)
	}
}

func (c *Cluster) postJob(r *http.Request) (any, *refused) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, &refused{http.StatusBadRequest, "BadRequest", err.Error()}
	}
	if r.URL.Query().Get("fieldValidation") != "Strict" {
		return nil, &refused{http.StatusBadRequest, "BadRequest", "the client didn't ask for its fields to be validated"}
	}
	j, no := c.create(text)
	if no != nil {
		return nil, no
	}
	return j.object(), nil
}

// listJobs are the Jobs of a label; or of one name, by which kubectl waits for a
// Job to be gone.
func (c *Cluster) listJobs(r *http.Request) any {
	if label := r.URL.Query().Get("labelSelector"); label != "" {
		return c.labelled(label)
	}
	items := []any{}
	_, name, _ := strings.Cut(r.URL.Query().Get("fieldSelector"), "=")
	if j := c.jobs[name]; j != nil {
		items = append(items, j.object())
	}
	return listOf(items)
}

// labelled are the Jobs with a label, as KEY=VALUE.
func (c *Cluster) labelled(label string) any {
	items := []any{}
	key, value, _ := strings.Cut(label, "=")
	for _, j := range c.jobs {
		if have, ok := j.m.Metadata.Labels[key]; ok && have == value {
			items = append(items, j.object())
		}
	}
	return listOf(items)
}

func listOf(items []any) any {
	return map[string]any{"apiVersion": "batch/v1", "kind": "JobList", "metadata": map[string]any{"resourceVersion": "1"}, "items": items}
}

// object is a Job as it was asked for, and its status.
func (j *job) object() map[string]any {
	object := map[string]any{}
	if err := yaml.Unmarshal(j.text, &object); err != nil {
		j.c.t.Error(err) // it was checked
		return nil
	}
	object["status"] = j.status()
	if meta, ok := object["metadata"].(map[string]any); ok {
		meta["uid"] = j.m.Metadata.Name
	}
	return object
}
