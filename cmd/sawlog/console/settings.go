package console

import (
	"net/http"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"sawlog/cmd/sawlog/config"
)

// settingsBody is the page of what the server and its broker run with.
type settingsBody struct {
	Node     int32
	Settings []setting
	Configs  []configured
	Every    bool
	All      int
	AllOf    string
	Trouble  string
	Lines    []string
}

// setting is one setting of the server.
type setting struct {
	config.Value
	Help    string
	Changed bool
}

func (k *console) settings(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	body := settingsBody{Node: k.Node, Every: query.Get("configs") == "all", Lines: []string{"sawlog config view --origin"}}
	help := map[string]string{}
	for _, s := range config.Settings() {
		help[s.Name] = s.Help
	}
	for _, v := range k.Settings {
		body.Settings = append(body.Settings, setting{Value: v, Help: help[v.Name], Changed: v.Origin != "default"})
	}
	body.AllOf = "?" + keep(query, "configs", map[bool]string{false: "all"}[body.Every]) + "#configs"
	c, ctx, done, err := k.kafka(r.Context())
	defer done()
	if err == nil {
		node := strconv.Itoa(int(k.Node))
		configs, asked := configsOf(ctx, c.Broker(k.Node), kmsg.ConfigResourceTypeBroker, []string{node}, nil)
		err, body.All = asked, len(configs[node])
		for _, one := range configs[node] {
			if body.Every || one.Changed {
				body.Configs = append(body.Configs, one)
			}
		}
	}
	body.Trouble = say(err)
	k.draw(w, r, "settings.html", page{Title: "Settings", Nav: "settings", Body: body})
}
