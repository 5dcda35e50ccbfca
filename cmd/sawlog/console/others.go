package console

import "net/http"

// others routes the pages of what loads stand on: topics, groups, outputs, the
// cluster and its settings.
func (k *console) others(*http.ServeMux) {}
