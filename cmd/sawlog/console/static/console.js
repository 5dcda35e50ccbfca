// Keeps a page live and walks its hours by keyboard. Every page works without it.
"use strict";

const names = { s: "sealed", l: "late", f: "filling", r: "running", x: "failed", m: "missing", ".": "future", "-": "before the first record" };
const tip = document.getElementById("tip");
const live = document.getElementById("live");
const $ = (s, in_ = document) => in_.querySelector(s);
const all = (s, in_ = document) => [...in_.querySelectorAll(s)];

// --- live: events say that something changed, then the page is fetched again
let timer = 0, fetching = false, again = 0; // again: wait so long and look once more
const still = "still" in document.body.dataset;

function soon(ms) {
  if (still) return;
  if (!timer) timer = setTimeout(() => { timer = 0; refresh(); }, ms);
}

async function refresh() {
  if (fetching || document.hidden) { again = again || 1000; return; }
  fetching = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) { location.href = answer.url; return; } // to log in
    const at = " · " + new Date().toISOString().slice(11, 19) + " UTC";
    if (answer.ok) {
      merge(new DOMParser().parseFromString(await answer.text(), "text/html"));
      details.clear();
      say(true, "live" + at);
    } else { // what is shown stays, be it an error or of before one
      say(false, "error " + answer.status + at);
    }
  } catch {
    say(false, "server not reached");
  }
  fetching = false;
  const wait = again;
  again = 0;
  if (wait) soon(wait);
}

// merge replaces what changed, piece by piece, so that focus and scrolling stay.
function merge(next) {
  const here = $("#main"), there = $("#main", next);
  document.title = next.title;
  const keys = all("[data-key]", here).map(e => e.dataset.key).join("\n");
  if (keys !== all("[data-key]", there).map(e => e.dataset.key).join("\n")) {
    const focus = focusPath();
    here.replaceChildren(...there.childNodes);
    restore(focus);
  } else {
    const focus = focusPath();
    for (const old of all("[data-key], #cards, #totals, .bar > .state, .bar > .actions", here)) {
      const fresh = old.dataset.key ? $(`[data-key="${CSS.escape(old.dataset.key)}"]`, there)
        : $(old.id ? "#" + old.id : ".bar > ." + old.className, there);
      if (fresh && !old.isEqualNode(fresh)) old.replaceWith(fresh);
    }
    restore(focus);
  }
  mark();
}

// focusPath says where the focus is, in words that hold for the next page too.
function focusPath() {
  const e = document.activeElement;
  if (!e || !e.closest || !e.closest("#main") || e.id === "main") return null;
  const box = e.closest("[data-key]");
  const same = e.id ? "#" + CSS.escape(e.id) : e.dataset.at ? `[data-at="${e.dataset.at}"]`
    : e.dataset.set ? `[data-set="${CSS.escape(e.dataset.set)}"]`
    : e.getAttribute("href") ? `a[href="${CSS.escape(e.getAttribute("href"))}"]` : "";
  return same ? { key: box && box.dataset.key, same, cell: e.dataset.set ? cursor.index : -1 } : null;
}

function restore(p) {
  if (!p || document.activeElement !== document.body) return;
  const box = p.key ? $(`[data-key="${CSS.escape(p.key)}"]`) : $("#main"), e = box && $(p.same, box);
  if (e) { e.focus({ preventScroll: true }); if (p.cell >= 0) point(e, p.cell); }
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
  for (const kind of ["run", "hour", "job", "backfill"]) feed.addEventListener(kind, () => soon(400));
  feed.addEventListener("task", () => soon(1500));
}
setInterval(() => soon(0), 30000);
document.addEventListener("visibilitychange", () => { if (!document.hidden) soon(100); });
if (window.EventSource && !still) listen();

// --- strips: one picture of many hours; the pointer and the arrows find the cell
const cursor = { link: null, index: -1 };
const details = new Map();

function cellTime(svg, i) {
  const step = svg.dataset.unit === "day" ? 86400000 : 3600000;
  return new Date(Date.parse(svg.dataset.from) + i * step);
}

// clock prints a moment in the zone of the page.
const zone = document.body.dataset.zone;
const clock = new Intl.DateTimeFormat("en-GB", { timeZone: zone, weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const moment = at => clock.format(at).replace(",", "") + " " + zone;

function point(link, i) {
  const svg = $("svg.strip", link);
  if (!svg) return;
  const cells = svg.dataset.cells;
  i = Math.max(0, Math.min(cells.length - 1, i));
  if (cursor.link && cursor.link !== link) unpoint();
  cursor.link = link; cursor.index = i;
  svg.classList.add("pointed");
  $(".cursor", svg).setAttribute("x", i * svg.viewBox.baseVal.width / cells.length - 0.4);
  const at = cellTime(svg, i);
  const box = svg.getBoundingClientRect();
  show(moment(at) + " – " + names[cells[i]], box.left + (i + 0.5) * box.width / cells.length, box.bottom);
  detail(link.dataset.job, svg).then(hours => {
    const h = hours && (hours.get(link.dataset.set) || [])[i];
    if (h && cursor.link === link && cursor.index === i) {
      show(words(h), box.left + (i + 0.5) * box.width / cells.length, box.bottom);
    }
  });
}

function words(h) {
  let s = moment(new Date(h.hour)) + " – " + h.state;
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
  const cell = e.target.closest && e.target.closest(".cell");
  if (cell !== hovered) {
    hovered = cell;
    if (cell) showCell(cell);
    else if (!cursor.link) tip.hidden = true;
  }
});
let hovered = null;
document.addEventListener("click", e => {
  const link = e.target.closest && e.target.closest(".striplink");
  if (link && link === cursor.link) { e.preventDefault(); location.href = hourOf(link); }
});
// hourOf is the page of the hour the cursor of a strip is on.
function hourOf(link) {
  const to = new URL(link.href);
  to.searchParams.set("hour", cellTime($("svg.strip", link), cursor.index).toISOString().slice(0, 16));
  to.hash = "hour";
  return to.href;
}
document.addEventListener("focusin", e => {
  if (e.target.classList.contains("striplink") && $("svg.strip", e.target) && e.target.matches(":focus-visible")) {
    point(e.target, cursor.link === e.target ? cursor.index : $("svg.strip", e.target).dataset.cells.length - 1);
  } else if (!e.target.closest(".striplink")) unpoint();
});

// --- keyboard
function mark() {
  offerZone();
  if ($("[data-reading]")) soon(1000); // a ledger was still being read
  for (const map of all("svg.map")) {
    const cells = all(".cell", map);
    if (cells.length && !cells.some(c => c.tabIndex === 0)) cells[cells.length > 24 ? 23 : cells.length - 1].tabIndex = 0;
  }
}

// walk goes to the next cell in time, or to the one above or below: days of 23
// and 25 hours have other columns.
function walk(cell, key) {
  let next = null;
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const cells = all(".cell", cell.closest("svg")).sort((a, b) => a.dataset.at < b.dataset.at ? -1 : 1);
    next = cells[cells.indexOf(cell) + (key === "ArrowRight" ? 1 : -1)];
  } else {
    const row = cell.closest(".row"), other = key === "ArrowUp" ? row.previousElementSibling : row.nextElementSibling;
    const x = c => c.firstElementChild.x.baseVal.value;
    next = other && all(".cell", other).sort((a, b) => Math.abs(x(a) - x(cell)) - Math.abs(x(b) - x(cell)))[0];
  }
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
  } else if (link && e.key === "Enter" && cursor.link === link) {
    location.href = hourOf(link);
  } else if (e.key === "Escape") {
    unpoint();
    if ($("#hour .close")) go($("#hour .close").href);
    return;
  } else return;
  e.preventDefault();
});
document.addEventListener("focusin", e => { if (e.target.classList.contains("cell") && e.target.matches(":focus-visible")) showCell(e.target); });
document.addEventListener("focusout", e => { if (e.target.classList.contains("cell")) tip.hidden = true; });

// --- hours: a cell opens its panel without leaving the page; the URL says which
function go(href) {
  history.pushState(null, "", href);
  again = fetching ? 1 : 0; // what is being fetched is the page before
  if (!fetching) refresh();
}
document.addEventListener("click", e => {
  if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
  const link = e.target.closest && e.target.closest("a.cell, #hour .bar a, .hoursbar .choices:not(.zones) a");
  if (!link) return;
  e.preventDefault();
  go(link.href.baseVal !== undefined ? new URL(link.href.baseVal, location.href).href : link.href);
});
addEventListener("popstate", () => refresh());

// --- what the browser's own clock shows
function offerZone() {
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  for (const link of all(".zones .browser")) {
    const others = all("a:not(.browser)", link.parentElement);
    if (others.some(a => a.textContent === own)) continue;
    const to = new URL(location.href);
    to.searchParams.set("zone", own);
    link.href = to.search;
    link.hidden = false;
    link.textContent = own;
  }
}

// --- forms: what was left empty is not asked for, a deed is done once
document.addEventListener("formdata", e => {
  if (e.target.method !== "get") return;
  for (const [name, value] of [...e.formData]) if (value === "" && name !== "name") e.formData.delete(name);
});
document.addEventListener("submit", e => {
  for (const b of all("button", e.target)) setTimeout(() => { b.disabled = true; b.textContent += " …"; });
});
mark();
