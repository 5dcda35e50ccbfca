// Keeps a page live and walks its hours by keyboard. Every page works without it.
"use strict";

const names = { s: "sealed", l: "late", f: "filling", r: "running", x: "failed", m: "missing", ".": "future", "-": "before the first record" };
const tip = document.getElementById("tip");
const live = document.getElementById("live");
const $ = (s, in_ = document) => in_.querySelector(s);
const all = (s, in_ = document) => [...in_.querySelectorAll(s)];

// --- live: events say that something changed, then the page is fetched again
let timer = 0, fetching = false, again = false;

function soon(ms) {
  if (!timer) timer = setTimeout(() => { timer = 0; refresh(); }, ms);
}

async function refresh() {
  if (fetching) { again = true; return; }
  if (document.hidden) { again = true; return; }
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    merge(next);
    details.clear();
    say(true, "live · " + new Date().toISOString().slice(11, 19) + " UTC");
  } catch {
    say(false, "server not reached");
  }
  fetching = false;
  if (again) { again = false; soon(1000); }
}

// merge replaces what changed, piece by piece, so that focus and scrolling stay.
function merge(next) {
  const here = $("#main"), there = $("#main", next);
  const keys = all("[data-key]", here).map(e => e.dataset.key).join("\n");
  if (keys !== all("[data-key]", there).map(e => e.dataset.key).join("\n")) {
    const focus = focusPath();
    here.replaceChildren(...there.childNodes);
    restore(focus);
  } else {
    const focus = focusPath();
    for (const old of all("[data-key], #cards, #totals, .state, .actions", here)) {
      const fresh = old.dataset.key ? $(`[data-key="${CSS.escape(old.dataset.key)}"]`, there)
        : $(old.id ? "#" + old.id : "." + old.className, there);
      if (fresh && !old.isEqualNode(fresh)) old.replaceWith(fresh);
    }
    restore(focus);
  }
  mark();
}

function focusPath() {
  const e = document.activeElement, box = e && e.closest && e.closest("[data-key]");
  if (!box) return null;
  return { key: box.dataset.key, at: e.dataset.at, set: e.dataset.set, href: e.getAttribute("href"), cell: cursor.index };
}

function restore(p) {
  const box = p && $(`[data-key="${CSS.escape(p.key)}"]`);
  if (!box || box.contains(document.activeElement)) return;
  const e = p.at ? $(`[data-at="${p.at}"]`, box) : p.set ? $(`[data-set="${CSS.escape(p.set)}"]`, box)
    : p.href ? $(`a[href="${CSS.escape(p.href)}"]`, box) : null;
  if (e) { e.focus({ preventScroll: true }); if (p.set && p.cell >= 0) point(e, p.cell); }
}

function say(on, text) {
  live.className = "live " + (on ? "on" : "off");
  live.textContent = text;
}

function listen() {
  const job = document.body.dataset.watch;
  const feed = new EventSource("/api/v1/events" + (job ? "?job=" + encodeURIComponent(job) : ""));
  feed.onopen = () => { say(true, "live"); soon(200); };
  feed.onerror = () => say(false, "reconnecting");
  for (const kind of ["run", "hour", "job"]) feed.addEventListener(kind, () => soon(400));
  feed.addEventListener("task", () => soon(3000));
}
setInterval(() => soon(0), 30000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(100); });
if (window.EventSource) listen();

// --- strips: one picture of many hours; the pointer and the arrows find the cell
const cursor = { link: null, index: -1 };
const details = new Map();

function cellTime(svg, i) {
  const step = svg.dataset.unit === "day" ? 86400000 : 3600000;
  return new Date(Date.parse(svg.dataset.from) + i * step);
}

function point(link, i) {
  const svg = $("svg.strip", link);
  if (!svg) return;
  const cells = svg.dataset.cells;
  i = Math.max(0, Math.min(cells.length - 1, i));
  if (cursor.link && cursor.link !== link) unpoint();
  cursor.link = link; cursor.index = i;
  svg.classList.add("pointed");
  $(".cursor", svg).setAttribute("x", i * svg.viewBox.baseVal.width / cells.length - 0.4);
  const at = cellTime(svg, i), key = at.toISOString().slice(0, 16);
  const box = svg.getBoundingClientRect();
  show(key.replace("T", " ") + " UTC – " + names[cells[i]], box.left + (i + 0.5) * box.width / cells.length, box.bottom);
  detail(link.dataset.job, svg).then(hours => {
    const h = hours && (hours.get(link.dataset.set) || [])[i];
    if (h && cursor.link === link && cursor.index === i) {
      show(words(h), box.left + (i + 0.5) * box.width / cells.length, box.bottom);
      cursor.run = h.run;
    }
  });
  cursor.run = "";
}

function words(h) {
  let s = h.hour.slice(0, 16).replace("T", " ") + " UTC – " + h.state;
  if (h.files) s += "\n" + h.rows.toLocaleString("en") + " rows in " + h.files + (h.files === 1 ? " file" : " files");
  if (h.late) s += ", " + h.late.toLocaleString("en") + " late";
  if (h.sealed_in >= 0) s += "\nsealed in ledger " + h.sealed_in;
  if (h.active) s += "\na run is going on";
  if (h.run) s += "\n" + h.run;
  return s;
}

function unpoint() {
  if (cursor.link) all("svg.pointed", cursor.link).forEach(e => e.classList.remove("pointed"));
  cursor.link = null; cursor.index = -1;
  tip.hidden = true;
}

function show(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(6, Math.min(innerWidth - w - 6, x - w / 2)) + "px";
  tip.style.top = (y + h + 12 > innerHeight ? y - h - 32 : y + 8) + "px";
}

function detail(job, svg) {
  // Two hours more: a day of 25 hours must not push the last one out.
  const to = new Date(+cellTime(svg, svg.dataset.cells.length) + 7200000).toISOString(), key = job + svg.dataset.from;
  if (!details.has(key)) {
    const url = "/api/v1/jobs/" + encodeURIComponent(job) + "/hours?from=" + svg.dataset.from + "&to=" + to;
    details.set(key, fetch(url).then(r => r.ok ? r.json() : null).then(list => {
      const hours = new Map();
      for (const g of list ? list.datasets : []) hours.set(g.topic || g.dataset, g.hours);
      return hours;
    }).catch(() => null));
  }
  return details.get(key);
}

function cellUnder(link, x) {
  const svg = $("svg.strip", link), box = svg.getBoundingClientRect();
  return Math.floor((x - box.left) / box.width * svg.dataset.cells.length);
}

document.addEventListener("pointermove", e => {
  const link = e.target.closest && e.target.closest(".striplink");
  if (link && $("svg.strip", link)) {
    const i = cellUnder(link, e.clientX);
    if (link !== cursor.link || i !== cursor.index) point(link, i);
  } else if (cursor.link && cursor.link !== document.activeElement) unpoint();
});
document.addEventListener("click", e => {
  const link = e.target.closest && e.target.closest(".striplink");
  if (link && link === cursor.link && cursor.run) { e.preventDefault(); location.href = "/console/runs/" + encodeURIComponent(cursor.run); }
});
document.addEventListener("focusin", e => {
  if (e.target.classList.contains("striplink") && $("svg.strip", e.target) && e.target.matches(":focus-visible")) {
    point(e.target, cursor.link === e.target ? cursor.index : $("svg.strip", e.target).dataset.cells.length - 1);
  } else if (!e.target.closest(".striplink")) unpoint();
});

// --- keyboard
function mark() {
  for (const map of all("svg.map")) {
    const cells = all(".cell", map);
    if (cells.length && !cells.some(c => c.tabIndex === 0)) cells[cells.length > 24 ? 23 : cells.length - 1].tabIndex = 0;
  }
}

function walk(cell, key) {
  const at = new Date(cell.dataset.at + ":00:00Z"), hour = 3600000;
  const step = { ArrowLeft: -hour, ArrowRight: hour, ArrowUp: 24 * hour, ArrowDown: -24 * hour }[key];
  const next = $(`.cell[data-at="${new Date(+at + step).toISOString().slice(0, 13)}"]`, cell.closest("svg"));
  if (next) { cell.tabIndex = -1; next.tabIndex = 0; next.focus(); showCell(next); }
}

function showCell(cell) {
  const box = cell.getBoundingClientRect();
  show(cell.getAttribute("aria-label").replaceAll(" – ", "\n"), box.left + box.width / 2, box.bottom);
}

function step(by) {
  const rows = all("article.job");
  if (!rows.length) return;
  const here = rows.indexOf(document.activeElement && document.activeElement.closest("article.job"));
  const row = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, here + by))];
  rows.forEach(r => r.classList.toggle("here", r === row));
  const strip = $(".striplink", row) || $("a", row);
  strip.focus({ focusVisible: true });
  row.scrollIntoView({ block: "nearest" });
}

document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const on = document.activeElement, typing = on && /^(INPUT|TEXTAREA|SELECT)$/.test(on.tagName);
  if (typing) { if (e.key === "Escape") on.blur(); return; }
  const link = on && on.classList.contains("striplink") ? on : null;
  const cell = on && on.classList.contains("cell") ? on : null;
  if (link && (e.key === "ArrowLeft" || e.key === "ArrowRight")) {
    point(link, cursor.index + (e.key === "ArrowRight" ? 1 : -1));
  } else if (link && (e.key === "ArrowUp" || e.key === "ArrowDown")) {
    step(e.key === "ArrowDown" ? 1 : -1);
  } else if (cell && e.key.startsWith("Arrow")) {
    walk(cell, e.key);
  } else if (e.key === "j" || e.key === "k") {
    step(e.key === "j" ? 1 : -1);
  } else if (e.key === "/" && $("#filter")) {
    $("#filter").focus();
  } else if (e.key === "Escape") {
    unpoint();
    return;
  } else return;
  e.preventDefault();
});
document.addEventListener("focusin", e => { if (e.target.classList.contains("cell") && e.target.matches(":focus-visible")) showCell(e.target); });
document.addEventListener("focusout", e => { if (e.target.classList.contains("cell")) tip.hidden = true; });

// --- actions: buttons post to the API and show what it says
document.addEventListener("click", async e => {
  const button = e.target.closest && e.target.closest("[data-post]");
  if (!button || button.dataset.ask && !confirm(button.dataset.ask)) return;
  button.disabled = true;
  let text = "";
  try {
    const answer = await fetch(button.dataset.post, { method: "POST", headers: { "Content-Type": "application/json" }, body: button.dataset.body || "{}" });
    const body = await answer.json();
    if (!answer.ok) text = body.message + (body.hint ? "\n" + body.hint : "");
    else if (/rerun|verify/.test(button.dataset.post)) text = JSON.stringify(body, null, 2);
  } catch (err) {
    text = "the server was not reached: " + err.message;
  }
  button.disabled = false;
  const place = $("#answer");
  if (text && place) { place.textContent = text; place.hidden = false; }
  else if (text) alert(text);
  soon(100);
});
mark();
