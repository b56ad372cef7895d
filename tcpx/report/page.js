"use strict";
const run = JSON.parse(document.getElementById("run").textContent);
const text = run.texts, steps = run.steps, cLines = run.c;
const $$ = (id) => document.getElementById(id);
const COLOURS = {
  "tiling": "tiling", "fusion": "fusion", "loops": "loops", "layout and memory": "layout", "vector": "vector",
  "operation tree": "tree", "cleanup and lowering": "lowering", "inspection": "inspection", "versions": "versions",
  "types": "types", "groups and calls": "fusion",
};
const CONTEXT = 3;
const narrow = matchMedia("(max-width: 900px)");
let current = 0, tab = "diff", picked = 0, wholeNest = false;

/* Texts come in as text nodes alone, so that no name can become markup. */
function el(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(properties || {})) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, held] of Object.entries(value)) made.style.setProperty(name, held);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}
const colour = (step) => ({ "--kind": `var(--${COLOURS[step.category] || "lowering"})` });
const shownTime = (ms) => {
  const [unit, scale] = [["s", 1e3], ["ms", 1], ["us", 1e-3]].find(([, each]) => ms >= 0.9995 * each) || ["ns", 1e-6];
  return `${ms / scale >= 99.95 ? (ms / scale).toFixed(0) : Number((ms / scale).toPrecision(3))} ${unit}`;
};
const count = (number, word) => `${number} ${word}${number === 1 ? "" : "s"}`;

/* -- the payload over the steps, and which lines of the C a step made or changed -- */

const before = [run.before];
for (const step of steps) {
  const old = before[before.length - 1], made = [];
  let at = 0;
  for (const [start, removed, added] of step.edits) {
    made.push(...old.slice(at, start), ...added);
    at = start + removed;
  }
  before.push(made.concat(old.slice(at)));
}
const linesOf = steps.map(() => []);
cLines.forEach(([, , by], k) => (by || []).forEach((number) => linesOf[number - 1] && linesOf[number - 1].push(k + 1)));
const added = (step) => step.edits.reduce((sum, edit) => sum + edit[2].length, 0);
const removed = (step) => step.edits.reduce((sum, edit) => sum + edit[1], 0);

/* -- colours of code -- */

const PAYLOAD = /(?<x>\/\/.*)|(?<s>"(?:[^"\\]|\\.)*")|(?<v>[%@][\w.\/~$-]+)|(?<o>\b[a-z_]\w*\.[a-z_]\w*)|(?<y>\b(?:tensor|vector|buffer|[fbsu]?[fi]\d+|i1|index)\b)|(?<w>\b(?:func|symbols|in|to|step|tile|drop|name|else|and|init|strides|strided|space|constants)\b)|(?<u>-?\b\d[\w.]*)/g;
const C_CODE = /(?<x>\/\*.*?\*\/)|(?<s>"(?:[^"\\]|\\.)*")|(?<w>^\s*#.*|\b(?:for|if|else|return|while|static|inline|const|restrict|sizeof|typedef|struct)\b)|(?<y>\b(?:void|int|float|double|char|size_t|u?int\d+_t|__m\d+\w*|f\d+x\d+)\b)|(?<o>\b(?:_mm\w+|tcpx_\w+|omp_\w+)\b)|(?<u>\b(?:0x)?\d[\w.]*)/g;
const CLASS = { x: "x", s: "u", v: "v", o: "o", y: "y", w: "w", u: "u" };
function coloured(line, pattern) {
  const parts = [];
  let at = 0;
  for (const match of line.matchAll(pattern)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    if (match.index > at) parts.push(line.slice(at, match.index));
    parts.push(el("span", { class: CLASS[kind] }, match[0]));
    at = match.index + match[0].length;
  }
  parts.push(line.slice(at));
  return parts;
}
/* The same, with the characters from `from` to `to` marked. */
function codeWithMark(line, from, to) {
  if (from >= to) return coloured(line, PAYLOAD);
  return [...coloured(line.slice(0, from), PAYLOAD), el("mark", {}, ...coloured(line.slice(from, to), PAYLOAD)),
    ...coloured(line.slice(to), PAYLOAD)];
}

/* -- the list of steps and the timeline -- */

const words = steps.map((step) => [step.transform, step.category, step.statement, step.place, ...step.calls.flat(),
  ...step.bound.flat(), ...step.made.flat(), ...step.changed, ...step.remarks].join("\n").toLowerCase());
let shown = steps.map((_, k) => k);

function statementParts(step) {
  const at = step.statement.indexOf(step.transform.split(" ")[0]);
  const length = step.transform.split(" ")[0].length;
  if (at < 0) return [step.statement];
  return [step.statement.slice(0, at), el("b", {}, step.statement.slice(at, at + length)), step.statement.slice(at + length)];
}
function drawSteps() {
  const list = $$("steps"), stack = [];
  let group = null;
  for (const k of shown) {
    const step = steps[k];
    const key = step.place === "" ? "after the schedule" : step.calls.map((call) => call.join(" ")).join(" < ");
    if (key !== group) {
      group = key;
      const title = step.place === "" ? ["Lowering, after the schedule"]
        : step.calls.length ? [el("b", {}, step.calls[0][0]), ` from ${step.calls[0][1]}`] : [el("b", {}, "schedule")];
      stack.push(el("h3", {}, ...title));
    }
    stack.push(el("button", { "data-step": k, style: colour(step), title: step.statement, onclick: () => go(k) },
      el("span", { class: "n" }, String(k + 1)),
      el("span", { class: "t" }, el("b", {}, step.transform), el("span", {}, " " + afterName(step))),
      el("span", { class: "ms" }, shownTime(step.ms))));
  }
  if (!shown.length) stack.push(el("p", { class: "nothing" }, "No step has these words."));
  list.replaceChildren(...stack);
}
function afterName(step) {
  const name = step.transform.split(" ")[0], at = step.statement.indexOf(name);
  const rest = at < 0 ? step.statement : step.statement.slice(at + name.length);
  return rest.startsWith("(") ? rest.slice(1).replace(/\)$/, "") : rest.trim();
}
function drawTimeline() {
  const longest = Math.max(...steps.map((step) => step.ms), 0.001);
  $$("timeline").replaceChildren(...steps.map((step, k) => {
    const height = 6 + 94 * Math.sqrt(step.ms / longest);
    return el("button", { "data-step": k, tabindex: -1, style: colour(step), class: shown.includes(k) ? "" : "out",
      title: `${k + 1}  ${step.transform}  ${shownTime(step.ms)}`, "aria-label": `step ${k + 1}, ${step.transform}`,
      onclick: () => go(k) }, el("i", { style: { height: `${height}%` } }));
  }));
}
function applyFilter() {
  const wanted = $$("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = steps.map((_, k) => k).filter((k) => wanted.every((word) => words[k].includes(word)));
  drawSteps();
  drawTimeline();
  if (shown.length && !shown.includes(current)) go(shown[0]);
  else markCurrent();
}
function markCurrent() {
  for (const button of document.querySelectorAll("[data-step]")) {
    const here = Number(button.dataset.step) === current;
    if (here) button.setAttribute("aria-current", "step");
    else button.removeAttribute("aria-current");
    if (here && button.closest("#steps")) button.scrollIntoView({ block: "nearest" });
  }
}

/* -- one step -- */

function drawHead(step) {
  const crumbs = [el("span", { class: "number" }, `Step ${current + 1} of ${steps.length}`)];
  if (step.place) crumbs.push(el("span", {}, step.place));
  else crumbs.push(el("span", {}, "part of the lowering: no statement of the schedule says it"));
  for (const [name, place] of step.calls) {
    crumbs.push(el("span", { class: "sep" }, "in"), el("span", {}, name), el("span", { class: "sep" }, `called from ${place}`));
  }
  const lines = linesOf[current];
  $$("head").replaceChildren(
    el("div", { class: "where" }, ...crumbs),
    el("code", { class: "statement", style: colour(step) }, ...statementParts(step)),
    el("div", { class: "chips" },
      el("span", { class: "chip", style: colour(step) }, el("span", { class: "dot" }), step.category),
      el("span", { class: "chip" }, shownTime(step.ms)),
      el("span", { class: "chip" }, count(step.visited, "operation")),
      el("span", { class: "chip" }, el("span", { class: "plus" }, `+${added(step)}`),
        el("span", { class: "minus" }, `−${removed(step)}`), "lines"),
      lines.length ? el("button", { class: "chip", onclick: () => showC(lines[0]) }, `${count(lines.length, "line")} of C →`)
        : null));
}
const remarksOn = (name) => run.remarks.filter(([, nest]) => nest && nest === text[name]);
const remarkBox = ([, , message, whole]) => el("details", { class: "remark" }, el("summary", {}, message), whole);
const MARKS = { "+": "new", "~": "moved", "|": "" };
function nestRow([mark, depth, kind, name, subject, place]) {
  const loop = kind === "for" || kind === "parallel";
  const parts = [el("span", { class: "rail" }, "│ ".repeat(depth))];
  if (kind === "vector" || kind === "computation") {
    parts.push(el("span", { class: "kind" }, kind === "vector" ? "vector" : "·"), el("span", {}, text[name]),
      el("span", { class: "subject" }, text[subject]));
  } else {
    parts.push(el("span", { class: "kind" }, kind));
    if (kind !== "if" && kind !== "else") parts.push(el("span", {}, (kind === "func" ? "@" : "") + text[name]));
    if (text[subject] && kind !== "else") parts.push(el("span", { class: loop ? "range" : "subject" }, text[subject]));
  }
  if (loop && remarksOn(name).length) parts.push(el("span", { class: "slow", title: remarksOn(name)[0][2] }, "slow"));
  parts.push(el("span", { class: "place" }, text[place]));
  return el("div", { class: `${kind} ${MARKS[mark]}` }, ...parts);
}
function drawNest(step) {
  let rows = step.nest, title = "Loop nest";
  if (!rows) {
    for (let k = current - 1; k >= 0 && !rows; k--) rows = steps[k].nest && steps[k].nest.map((row) => ["|", ...row.slice(1)]);
    rows = rows || run.nest;
    title = "Loop nest, not changed";
  }
  const kept = new Set([0]);
  rows.forEach(([mark, depth], k) => {
    if (mark === "|" && !wholeNest) return;
    for (let near = k - CONTEXT; near <= k + CONTEXT; near++) kept.add(near);
    for (let outer = k - 1, inside = depth; outer >= 0; outer--) {
      if (rows[outer][1] < inside) { kept.add(outer); inside = rows[outer][1]; }
    }
  });
  const changed = rows.some(([mark]) => mark !== "|");
  const made = [];
  let hidden = 0;
  const flush = () => {
    if (hidden) made.push(el("div", { class: "gap" }, el("button", { onclick: () => { wholeNest = true; drawNest(step); } },
      `${count(hidden, "more line")}`)));
    hidden = 0;
  };
  rows.forEach((row, k) => {
    if (!changed || kept.has(k)) { flush(); made.push(nestRow(row)); } else hidden++;
  });
  flush();
  const slow = [...new Set(rows.filter((row) => row[2] === "for" || row[2] === "parallel").flatMap((row) => remarksOn(row[3])))];
  $$("nest").replaceChildren(el("h2", {}, title), el("div", { class: "tree" }, ...made), ...slow.map(remarkBox));
}
function drawHandles(step) {
  const parts = [];
  const pairs = (title, rows, kind) => {
    if (rows.length) parts.push(el("h2", {}, title), el("dl", {}, ...rows.flatMap(([name, value]) =>
      [el("dt", { class: kind }, name), el("dd", {}, ...coloured(value, PAYLOAD))])));
  };
  pairs("Handles it made", step.made, "made");
  pairs("What its arguments denoted", step.bound, "");
  for (const remark of step.remarks) parts.push(el("p", { class: "remark" }, remark));
  if (step.changed.length) parts.push(el("details", {}, el("summary", {}, `${count(step.changed.length, "operation")} made or changed`),
    el("div", { class: "list" }, step.changed.join("\n"))));
  if (!parts.length) parts.push(el("h2", {}, "Handles"), el("p", { class: "nothing" }, "This step takes and makes none."));
  $$("handles").replaceChildren(...parts);
}

/* -- the diff -- */

/* Pairs of removed and added lines: as many as can be that differ in indentation alone or share their opcode. */
const opcodeOf = (line) => (/^func|\b[a-z_]\w*\.[a-z_]\w*/.exec(line) || [line])[0];
function paired(old, made) {
  const a = old.map((id) => text[id].trim()), b = made.map((id) => text[id].trim());
  const opA = a.map(opcodeOf), opB = b.map(opcodeOf);
  const likeness = (i, j) => a[i] === b[j] ? 3 : opA[i] === opB[j] && a[i].length > 2 ? 1 : 0;
  const rows = [];
  const plain = (i, iEnd, j, jEnd) => {
    while (i < iEnd) rows.push([i++, null]);
    while (j < jEnd) rows.push([null, j++]);
  };
  if (a.length * b.length > 250000) { plain(0, a.length, 0, b.length); return rows; }
  const best = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    const like = likeness(i, j);
    best[i][j] = Math.max(best[i + 1][j], best[i][j + 1], like ? best[i + 1][j + 1] + like : 0);
  }
  let i = 0, j = 0, fromI = 0, fromJ = 0;
  while (i < a.length && j < b.length) {
    const like = likeness(i, j);
    if (like && best[i][j] === best[i + 1][j + 1] + like) {
      plain(fromI, i, fromJ, j);
      rows.push([i++, j++]);
      fromI = i; fromJ = j;
    } else if (best[i + 1][j] === best[i][j]) i++; else j++;
  }
  plain(fromI, a.length, fromJ, b.length);
  return rows;
}
function changedSpan(a, b) {
  let start = 0, end = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const alike = start + end > 0.3 * Math.max(a.length, b.length);
  return alike ? [start, end] : null;
}
const indentOf = (line) => `${line.length - line.trimStart().length}ch`;
function drawDiff(step) {
  const old = before[current], unified = narrow.matches, rows = [];
  const number = (n, kind) => el("span", { class: `no ${kind}` }, n === null ? "" : String(n + 1));
  const cell = (line, kind, span) => el("span", { class: `ln ${kind}`, style: { "--in": indentOf(line) } },
    ...(span ? codeWithMark(line, span[0], line.length - span[1]) : coloured(line, PAYLOAD)));
  const one = (o, n, oldLine, newLine, kindOld, kindNew, spans) => {
    if (unified) {
      if (kindOld === "" || kindOld === "shift") { rows.push(number(o, kindOld), number(n, kindOld), cell(newLine, kindOld)); return; }
      if (oldLine !== null) rows.push(number(o, kindOld), number(null, kindOld), cell(oldLine, kindOld, spans));
      if (newLine !== null) rows.push(number(null, kindNew), number(n, kindNew), cell(newLine, kindNew, spans));
      return;
    }
    rows.push(number(o, kindOld), oldLine === null ? el("span", { class: "ln old void" }) : cell(oldLine, `old ${kindOld}`, spans),
      number(n, kindNew), newLine === null ? el("span", { class: "ln void" }) : cell(newLine, kindNew, spans));
  };
  const same = (from, to, shift) => { for (let k = from; k < to; k++) one(k, k + shift, text[old[k]], text[old[k]], "", ""); };
  const gap = (from, to, shift) => {
    const button = el("button", { class: "gap" }, `${count(to - from, "line")} as before`);
    button.addEventListener("click", () => {
      const mark = rows.length;
      same(from, to, shift);
      button.replaceWith(...rows.splice(mark));
    });
    rows.push(button);
  };
  let at = 0, shift = 0;
  step.edits.forEach(([start, gone, come], k) => {
    const skip = start - at > 2 * CONTEXT + 1;
    if (skip) {
      if (k) same(at, at + CONTEXT, shift);
      gap(k ? at + CONTEXT : at, start - CONTEXT, shift);
      same(start - CONTEXT, start, shift);
    } else same(at, start, shift);
    const removedIds = old.slice(start, start + gone);
    const waiting = [];
    const flush = () => { for (const row of waiting.splice(0)) one(...row); };
    for (const [i, j] of paired(removedIds, come)) {
      const a = i === null ? null : text[removedIds[i]], b = j === null ? null : text[come[j]];
      const o = i === null ? null : start + i, n = j === null ? null : start + shift + j;
      if (a !== null && b !== null && a.trim() === b.trim()) { flush(); one(o, n, a, b, "shift", "shift"); }
      else waiting.push([o, n, a, b, a === null ? "void" : "del", b === null ? "void" : "add", a !== null && b !== null ? changedSpan(a, b) : null]);
    }
    flush();
    at = start + gone;
    shift += come.length - gone;
  });
  if (old.length - at > CONTEXT + 1) { same(at, at + CONTEXT, shift); gap(at + CONTEXT, old.length, shift); }
  else same(at, old.length, shift);
  $$("pane").replaceChildren(step.edits.length ? el("div", { class: `diff${unified ? " unified" : ""}` }, ...rows)
    : el("p", { class: "nothing" }, "This step looks and changes nothing."));
  $$("legend").textContent = step.edits.length ? "before, after" : "";
}

/* -- the C -- */

function drawC() {
  const hits = new Set(linesOf[current]);
  if (!cLines.length) {
    $$("pane").replaceChildren(el("p", { class: "nothing" }, "There is no C: the run ended before it."));
    return;
  }
  let last = "";
  const rows = cLines.map(([id, operation, by, place], k) => {
    const label = by && by.length ? `${by.length > 3 ? "… " : ""}${by.slice(-3).join(" ")}` : "";
    const row = el("button", { class: `${by && by.length ? "has" : ""} ${hits.has(k + 1) ? "hit" : ""}`, "data-line": k + 1,
      tabindex: -1, onclick: by && by.length ? () => pick(k + 1) : undefined },
      el("span", { class: "no" }, String(k + 1)), el("span", { class: "by" }, label === last ? "" : label),
      el("span", { class: "src" }, ...coloured(text[id], C_CODE)));
    last = label;
    return row;
  });
  $$("pane").replaceChildren(el("div", { class: "c" }, ...rows));
  $$("legend").textContent = `step ${current + 1}, ${steps[current].transform}: ${hits.size || "none"} of ${count(cLines.length, "line")}`;
  if (picked) showPicked();
}
function pick(line) {
  picked = line;
  showPicked();
  remember();
}
function showPicked() {
  for (const row of document.querySelectorAll(".c .picked")) row.classList.remove("picked");
  const row = document.querySelector(`.c [data-line="${picked}"]`), [, operation, by, place] = cLines[picked - 1] || [];
  $$("inspector").hidden = !row || !by;
  if (!row || !by) return;
  row.classList.add("picked");
  $$("inspector").replaceChildren(
    el("div", {}, `Line ${picked} is of `, el("code", {}, `%${text[operation]}`), place ? `, made at ${place}` : "",
      ", through ", count(by.length, "step"), ":"),
    el("div", { class: "chips" }, ...by.filter((number) => steps[number - 1]).map((number) => el("button", { class: "chip", style: colour(steps[number - 1]),
      onclick: () => go(number - 1) }, el("span", { class: "dot" }), `${number} ${steps[number - 1].transform}`))));
}
function showC(line) {
  tab = "c";
  picked = 0;
  drawPane();
  scrollToLine(line);
}
function scrollToLine(line) {
  const row = document.querySelector(`.c [data-line="${line}"]`);
  if (row) row.scrollIntoView({ block: "center" });
}

/* -- moving about -- */

function drawPane() {
  $$("tab-diff").setAttribute("aria-selected", tab === "diff");
  $$("tab-c").setAttribute("aria-selected", tab === "c");
  $$("inspector").hidden = true;
  if (tab === "c") drawC(); else drawDiff(steps[current]);
  remember();
}
function go(k) {
  if (k < 0 || k >= steps.length) return;
  current = k;
  wholeNest = false;
  const step = steps[k];
  drawHead(step);
  drawNest(step);
  drawHandles(step);
  const atLine = tab === "c" ? linesOf[k][0] : 0;
  drawPane();
  markCurrent();
  if (tab === "c" && (picked || atLine)) scrollToLine(picked || atLine);
  else if (tab === "diff") $$("detail").scrollTop = 0;
}
function move(by) {
  const at = shown.indexOf(current), next = shown[at + by];
  if (next !== undefined) { picked = 0; go(next); }
}
function nextChange(by) {
  const rows = [...document.querySelectorAll(tab === "c" ? ".c .hit" : ".diff .add, .diff .del, .diff .shift")]
    .filter((row, k, all) => !k || row.getBoundingClientRect().top - all[k - 1].getBoundingClientRect().top > 40);
  const tops = rows.map((row) => row.getBoundingClientRect().top - innerHeight / 2);
  const k = by > 0 ? tops.findIndex((top) => top > 12) : tops.findLastIndex((top) => top < -12);
  if (k >= 0) rows[k].scrollIntoView({ block: "center" });
}
function remember() {
  if (location.protocol === "about:") return;  // in a notebook's frame, which has no address
  const place = tab === "c" && picked ? `c-${picked}` : "";
  history.replaceState(null, "", `#step-${current + 1}${tab === "c" ? "-c" : ""}${place ? `-${picked}` : ""}`);
}
function fromAddress() {
  const found = /^#step-(\d+)(-c)?(?:-(\d+))?$/.exec(location.hash);
  if (!found) return 0;
  if (found[2]) tab = "c";
  picked = Number(found[3] || 0);
  return Math.min(Math.max(Number(found[1]) - 1, 0), steps.length - 1);
}
const KEYS = {
  j: () => move(1), k: () => move(-1), ArrowDown: () => move(1), ArrowUp: () => move(-1), n: () => nextChange(1), p: () => nextChange(-1),
  d: () => { tab = "diff"; drawPane(); }, c: () => showC(linesOf[current][0] || 1), "/": () => $$("filter").focus(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === $$("filter")) {
    if (event.key === "Escape") { $$("filter").value = ""; applyFilter(); $$("filter").blur(); }
    if (event.key === "Enter") $$("filter").blur();
    return;
  }
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});
$$("filter").addEventListener("input", applyFilter);
$$("tab-diff").addEventListener("click", () => { tab = "diff"; drawPane(); });
$$("tab-c").addEventListener("click", () => showC(linesOf[current][0] || 1));
narrow.addEventListener("change", drawPane);
addEventListener("hashchange", () => go(fromAddress()));

/* -- the page -- */

$$("title").append(`@${run.func} `, el("span", { class: "by" }, "of "), run.payload || "a payload", el("span", { class: "by" }, " under "), run.schedule);
const total = steps.reduce((sum, step) => sum + step.ms, 0);
for (const fact of [count(steps.length, "step"), shownTime(total), run.target, count(run.threads, "thread"),
  cLines.length ? `${cLines.length} lines of C` : "no C"]) $$("facts").append(el("span", {}, fact));
if (run.error) { $$("failure").textContent = run.error; $$("failure").hidden = false; }
const ends = [];
if (run.knobs.length) ends.push(el("article", {}, el("h2", {}, "Knobs"), el("dl", {}, ...run.knobs.flatMap(([path, value, why]) =>
  [el("dt", {}, path), el("dd", {}, value, el("span", { class: "x" }, `  ${why}`))]))));
if (run.ran) ends.push(el("article", {}, el("h2", {}, "Ran"), el("pre", {}, run.ran)));
if (run.remarks.length) ends.push(el("article", {}, el("h2", {}, "Remarks"), ...run.remarks.map(remarkBox)));
if (run.leftAlone) ends.push(el("article", {}, el("h2", {}, "Left alone"), el("pre", {}, run.leftAlone)));
$$("end").append(...ends);
drawSteps();
drawTimeline();
if (steps.length) go(fromAddress());
else $$("detail").replaceChildren(el("p", { class: "nothing" }, "No step ran."));
