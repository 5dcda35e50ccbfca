#!/bin/sh
# Takes the README's picture: a week of the demo's hours in the console, by a
# headless Chromium. picture.sh BINARY PNG
set -e
dir=$(mktemp -d)
"$1" demo --dir "$dir/demo" --hours 160 --rate 500 --listen 127.0.0.1:0 --peer 127.0.0.1:0 --http 127.0.0.1:0 2>"$dir/log" &
demo=$!
trap 'kill $demo; wait $demo 2>/dev/null || true; rm -rf "$dir"' EXIT
until grep -q '^try:' "$dir/log"; do
	kill -0 $demo || { cat "$dir/log"; exit 1; }
	sleep 0.2
done
console=$(sed -n 's/^console *\(http[^ ]*\).*/\1/p' "$dir/log")
timeout 90 chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --user-data-dir="$dir/chromium" \
	--window-size=1280,900 --timeout=4000 --screenshot="$2" "$console/console/jobs/pageviews-hourly" 2>"$dir/said" || { cat "$dir/said"; exit 1; }
