package console

// place is one entry of the navigation, on every page.
type place struct{ Key, Name, Href string }

// places in the order people look at them: loads first, then what they stand on.
var places = []place{
	{"overview", "Overview", "/console/"},
	{"jobs", "Jobs", "/console/jobs"},
	{"runs", "Runs", "/console/runs"},
	{"backfills", "Backfills", "/console/backfills"},
	{"topics", "Topics", "/console/topics"},
	{"groups", "Groups", "/console/groups"},
	{"outputs", "Outputs", "/console/outputs"},
	{"cluster", "Cluster", "/console/cluster"},
	{"settings", "Settings", "/console/settings"},
}
