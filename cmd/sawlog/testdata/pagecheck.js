// What must be true of every page, as a list of faults in words.
(() => {
  const faults = [];
  const name = e => {
    if (!e || e === document.documentElement) return "page";
    const text = (e.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    return e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + (e.className && e.className.baseVal === undefined && e.className ? "." + String(e.className).split(" ").join(".") : "") + (text ? ` “${text}”` : "");
  };
  const shown = e => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const all = [...document.body.querySelectorAll("*")].filter(shown);

  // --- nothing is cut off
  if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} wide in a window of ${innerWidth}`);
  for (const e of all) {
    const style = getComputedStyle(e);
    if (e instanceof SVGElement || style.display.startsWith("inline") && style.display !== "inline-block" || !e.clientWidth) continue;
    if (e.scrollWidth <= e.clientWidth + 1 || /auto|scroll/.test(style.overflowX)) continue;
    if (style.textOverflow === "ellipsis" && (e.title || e.closest("[title]"))) continue;
    if (e.tagName === "INPUT" || e.tagName === "SELECT") continue;
    faults.push(`${name(e)} is cut off: ${e.scrollWidth} in ${e.clientWidth}`);
  }
  for (const e of all.filter(e => /auto|scroll/.test(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1)) {
    if (e.tabIndex < 0 && !e.querySelector("a[href], button, input, [tabindex='0']")) faults.push(`${name(e)} scrolls, but not by keyboard`);
  }

  // --- no text lies on other text
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walker.nextNode(); n; n = walker.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || !shown(e) || e.closest("option, script, style, title")) continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    for (const r of range.getClientRects()) {
      let box = { left: r.left, top: r.top, right: r.right, bottom: r.bottom };
      for (let p = e; p && p !== document.body; p = p.parentElement) {
        const style = getComputedStyle(p);
        if (style.overflowX === "visible" || p instanceof SVGElement && p.tagName !== "svg") continue;
        const c = p.getBoundingClientRect();
        box = { left: Math.max(box.left, c.left), top: Math.max(box.top, c.top), right: Math.min(box.right, c.right), bottom: Math.min(box.bottom, c.bottom) };
      }
      if (box.right - box.left > 1 && box.bottom - box.top > 1) boxes.push({ ...box, e, n });
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom; j++) {
      const a = boxes[i], b = boxes[j];
      if (a.n === b.n) continue;
      const w = Math.min(a.right, b.right) - Math.max(a.left, b.left), h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      // Boxes of lines are taller than their letters: they may touch.
      if (w > 2 && h > 0.35 * Math.min(a.bottom - a.top, b.bottom - b.top)) faults.push(`${name(a.e)} and ${name(b.e)} overlap by ${w.toFixed(0)} × ${h.toFixed(0)}`);
    }
  }

  // --- letters stand out from what is behind them
  const parse = c => {
    let m = c.match(/^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/);
    if (m) return [m[1] / 255, m[2] / 255, m[3] / 255, m[4] === undefined ? 1 : +m[4]];
    m = c.match(/^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/);
    return m ? [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]] : null;
  };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = e => {
    const layers = [];
    for (let p = e; p; p = p.parentElement) {
      if (p instanceof SVGElement && p.tagName !== "svg") continue;
      const c = parse(getComputedStyle(p).backgroundColor);
      if (c && c[3] > 0) layers.push(c);
      if (c && c[3] === 1) break;
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [1, 1, 1, 1]);
  };
  const light = c => {
    const [r, g, b] = c.map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  for (const { e } of boxes) {
    if (seen.has(e) || e.closest(":disabled")) continue;
    seen.add(e);
    const style = getComputedStyle(e), back = behind(e);
    let front = parse(e instanceof SVGElement ? style.fill : style.color);
    if (!front) { faults.push(`${name(e)} has a colour that is not understood: ${style.color}`); continue; }
    let opacity = 1;
    for (let p = e; p; p = p.parentElement) opacity *= +getComputedStyle(p).opacity;
    front = over([...front.slice(0, 3), front[3] * opacity], back);
    const [a, b] = [light(front), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && +style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) faults.push(`${name(e)} has a contrast of ${ratio.toFixed(2)}`);
  }

  // --- what a screen reader needs
  const label = e => (e.getAttribute("aria-label") || e.title || e.textContent || (e.labels && e.labels[0] && e.labels[0].textContent) || "").trim() || [...e.querySelectorAll("img[alt], svg[aria-label]")].some(i => i.alt || i.getAttribute("aria-label"));
  for (const e of all.filter(e => e.matches("a, button, input:not([type=hidden]), select, textarea"))) if (!label(e)) faults.push(`${name(e)} has no name`);
  for (const e of all.filter(e => e.matches("svg[role=img], svg[role=group]"))) if (!e.getAttribute("aria-label")) faults.push(`${name(e)} has no label`);
  for (const e of all.filter(e => e.matches("svg:not([role]):not([aria-hidden])"))) faults.push(`${name(e)} has no role`);
  for (const e of all.filter(e => e.matches("table"))) if (!e.querySelector("th") && e.rows.length > 1 && !e.getAttribute("aria-label")) faults.push(`${name(e)} has no heads`);
  const heads = all.filter(e => e.tagName === "H1");
  if (heads.length !== 1) faults.push(`${heads.length} h1`);
  if (!document.documentElement.lang) faults.push("the page has no language");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  if (!document.querySelector("nav [aria-current=page]") && !/\/console\/(reports|nowhere)/.test(location.pathname)) faults.push("the navigation doesn't say where this is");
  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) { if (ids.has(e.id)) faults.push(`two elements have the id ${e.id}`); ids.add(e.id); }
  return faults;
})()
