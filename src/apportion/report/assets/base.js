// What every picture needs: elements, colours, tables, and a figure that is drawn anew where its width changes.
"use strict";
const NOBODY = -1;
const $ = (id) => document.getElementById(id);
const grouped = new Intl.NumberFormat("en-US");
const number = (n) => n === null || n === undefined ? "–" : grouped.format(n);
const count = (n, thing, things = thing + "s") => `${number(n)} ${n === 1 ? thing : things}`;
// Rows, which large pages carry as columns: an object of lists, one of which may be such columns itself.
function rowsOf(table) {
  if (Array.isArray(table)) return table;
  const columns = Object.entries(table).map(([name, column]) => [name, rowsOf(column)]);
  return (columns[0]?.[1] ?? []).map((_, i) => Object.fromEntries(columns.map(([name, column]) => [name, column[i]])));
}
const sum = (values) => values.reduce((a, b) => a + b, 0);
const clamp = (n, least, most) => Math.max(least, Math.min(most, n));
// What tells one name from the next mostly stands at its end. By letters: half of an emoji is none.
function short(text, most = 22) {
  if (text.length <= most) return text;
  const letters = [...text];
  return letters.length <= most ? text : letters.slice(0, Math.max(1, Math.ceil(most / 2) - 1)).join("") + "…" + letters.slice(-Math.floor(most / 2)).join("");
}
// Names are other people's words: what would turn a line round, or not be seen, is shown as its number, as the terminal has it.
const visible = (text) => text.replace(/[\p{C}\p{Z}]/gu, (letter) => {
  const code = letter.codePointAt(0), [mark, places] = code < 256 ? ["x", 2] : code < 65536 ? ["u", 4] : ["U", 8];
  return letter === " " || letter === "\n" ? letter : "\\" + mark + code.toString(16).padStart(places, "0");
});
// Pixels that a text of a picture takes, and as much of it as so many pixels hold: its first and its last letters.
const ruler = document.createElement("canvas").getContext("2d");
ruler.font = "12px system-ui, sans-serif";
const widths = new Map();
function places(text) {
  let wide = widths.get(text);
  if (wide === undefined) { wide = Math.ceil(ruler.measureText(visible(text)).width) + 1; widths.set(text, wide); }
  return wide;
}
function fit(text, room) {
  let most = [...text].length;
  while (most > 3 && places(short(text, most)) > room) most -= Math.max(1, Math.ceil((places(short(text, most)) - room) / 14));
  return short(text, Math.max(3, most));
}

// Round whole numbers from 0 up to the most, five at the most.
function ticks(most) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(1, most / 4)));
  const step = [1, 2, 5, 10].map((n) => n * ten).find((n) => most / n <= 4);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

// Okabe and Ito's colours, told apart by colour-blind readers; further members repeat them, lighter, then darker.
const COLOURS = [[0, 114, 178], [230, 159, 0], [0, 158, 115], [204, 121, 167], [86, 180, 233], [213, 94, 0], [184, 168, 0], [125, 125, 125]];
function shade(m) {
  const turn = Math.floor(m / COLOURS.length) % 3, towards = turn === 1 ? 255 : 0;
  return COLOURS[m % COLOURS.length].map((part) => Math.round(turn ? part * .6 + towards * .4 : part));
}
const colour = (m) => m === NOBODY ? "var(--empty)" : `rgb(${shade(m).join(" ")})`;
const inkOn = (m) => { const [r, g, b] = shade(m); return .299 * r + .587 * g + .114 * b > 125 ? "#000" : "#fff"; };
// A letter beside each colour, because colours alone do not reach everybody: A to Z, AA, AB, ...
const letter = (m) => (m >= 26 ? letter(Math.floor(m / 26) - 1) : "") + String.fromCharCode(65 + m % 26);

// A sentence as nodes: a word with hyphens, as most names are, goes to the next line whole where it fits there.
const PROSE = new Set(["p", "li", "b", "code", "summary"]);
const sentence = (text) => visible(text).split(/(\S+-\S*|-\S+)/).map((part, i) => {
  if (i % 2 === 0) return part;
  const word = document.createElement("span");
  word.className = "word"; word.textContent = part;
  return word;
});
const READ = new Set(["title", "aria-label"]); // attributes that a person reads
function dress(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, READ.has(key) ? visible(value) : value);
  return node;
}
function element(name, attributes = {}, ...children) {
  const node = dress(document.createElement(name), attributes);
  const written = PROSE.has(name) ? sentence : (text) => [visible(text)];
  node.append(...children.flatMap((child) => child === null || child === undefined ? [] : typeof child === "string" ? written(child) : [child]));
  return node;
}
function svg(name, attributes = {}, text = null) {
  const node = dress(document.createElementNS("http://www.w3.org/2000/svg", name), attributes);
  if (text !== null) node.textContent = visible(text);
  return node;
}
const canvas = (width, height, label) => svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
const hint = (node, text) => { node.append(svg("title", {}, text)); return node; };
const words = (x, y, text, look = {}) => svg("text", { x, y, ...look }, text);

// A line of values in time, from zero up; a gap is where one is unknown. The scale is its own unless another is given.
function sparkline(values, label, width = 72, height = 18, most = Math.max(1, ...values.map((n) => n ?? 0))) {
  const picture = canvas(width, height, label), X = (i) => 1 + (values.length < 2 ? 1 : i / (values.length - 1)) * (width - 4), Y = (n) => height - 2 - n / most * (height - 4);
  const d = values.map((n, i) => n === null ? "" : `${i && values[i - 1] !== null ? "L" : "M"}${X(i).toFixed(1)} ${Y(n).toFixed(1)}`).join("");
  picture.append(svg("path", { d, fill: "none", stroke: "var(--accent)", "stroke-width": 1.5 }));
  const last = values.at(-1);
  if (last !== null && last !== undefined) picture.append(svg("circle", { cx: X(values.length - 1).toFixed(1), cy: Y(last).toFixed(1), r: 2, fill: "var(--accent)" }));
  return picture;
}
const fromTo = (values) => { const known = values.filter((n) => n !== null); return known.length ? `from ${number(known[0])} to ${number(known.at(-1))}, at most ${number(Math.max(...known))}` : "unknown"; };

// A box whose content goes on to the right says so, and goes there, until one is at its end.
const edges = new ResizeObserver((entries) => entries.forEach(({ target }) => edge(target.matches(".scroll, .picture") ? target : target.parentElement)));
const ended = (box) => box.scrollLeft + box.clientWidth >= box.scrollWidth - 2;
function edge(box) { box?.toggleAttribute("data-more", !ended(box)); }
function moreOf(box, label, title) {
  const more = element("button", { type: "button", class: "more", title }, label);
  more.addEventListener("click", () => box.scrollBy({ left: box.clientWidth * .7, behavior: "smooth" }));
  edges.observe(box);
  box.addEventListener("scroll", () => edge(box), { passive: true });
  return more;
}
function goesOn(box) {
  box.append(moreOf(box, "More columns →", "Show the columns that are hidden to the right"));
  edges.observe(box.firstElementChild);
  return box;
}

// Cells are texts, numbers, or {text, best}: the best of a column wears a star.
const narrow = () => innerWidth < 640;
function table(head, rows, caption) {
  const bare = (cell) => cell !== null && typeof cell === "object" ? cell.text : cell;
  const numeric = head.map((_, i) => rows.every((row) => typeof bare(row[i]) === "number" || bare(row[i]) === "–" || bare(row[i]) === null));
  // The first column stays, and would cover the others: names there are cut in the middle.
  const shown = (value, i) => typeof value === "number" ? number(value) : i ? String(value ?? "–") : short(String(value ?? "–"), narrow() ? 18 : 44);
  const cell = (value, i, tag) => {
    const looks = [numeric[i] ? "n" : "", value?.best ? "best" : "", i && String(bare(value) ?? "").length > 40 ? "long" : ""].join(" ").trim();
    const star = value?.best ? element("span", { title: "best of this column" }, " *") : null;
    return element(tag, { class: looks || null, scope: tag === "th" ? "col" : null, title: !i && String(bare(value) ?? "").length > (narrow() ? 18 : 44) ? bare(value) : null }, ...(looks.endsWith("long") ? sentence(shown(bare(value), i)) : [shown(bare(value), i)]), star);
  };
  const says = head.map((_, i) => !i || !rows.length || rows.some((row) => (bare(row[i]) ?? "–") !== "–"));
  const line = (cells, tag) => element("tr", {}, ...cells.flatMap((value, i) => says[i] ? [cell(value, i, tag)] : []));
  return goesOn(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("thead", {}, line(head, "th")), element("tbody", {}, ...rows.map((row) => line(row, "td"))))));
}

const drawn = new WeakMap();
const resized = new ResizeObserver((entries) => entries.forEach((entry) => drawn.get(entry.target)?.()));
// What was found, the picture, its key, and in a fold what it shows and the same numbers as a table, to read or to copy.
// draw(width) gives the picture; finding, sentences, key, head and rows are asked again whenever something is chosen.
function figure({ id, title, finding = () => "", sentences, draw, head, rows, tools = [], key = () => [], wide = false }) {
  const picture = element("div", { class: "picture" }), caption = element("p"), colours = element("ul", { class: "key" });
  const more = element("details", {}, element("summary", {}, "The numbers, and how to read this"));
  const box = element("figure", { class: wide ? "wide" : null, id: "picture-" + id, "aria-labelledby": "title-" + id },
    element("figcaption", {}, element("h3", { id: "title-" + id }, title), caption),
    tools.length ? element("p", { class: "tools" }, ...tools) : null, picture, colours, more);
  const further = moreOf(picture, "It goes on →", "Show what is hidden to the right of the picture");
  let width = 0, over = false, open = false;
  const measure = () => { width = Math.max(260, picture.clientWidth); }, paint = () => picture.replaceChildren(draw(width), further);
  const look = () => { open = !ended(picture); over = open || picture.scrollWidth > picture.clientWidth + 1 || picture.scrollHeight > picture.clientHeight + 1; };
  const mark = () => {
    picture.toggleAttribute("data-more", open);
    for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", title + ", scrolls"]]) {
      if (over) picture.setAttribute(name, value); else picture.removeAttribute(name);
    }
  };
  const numbers = () => { while (more.children.length > 1) more.lastChild.remove(); if (more.open) more.append(element("p", {}, sentences()), table(head(), rows(), title)); };
  more.addEventListener("toggle", numbers);
  const tell = () => {
    caption.replaceChildren(...sentence(finding().trim()));
    colours.replaceChildren(...key().map(([label, ground, mark]) => {
      const dot = element("i", { "aria-hidden": "true" }, mark ?? ""); dot.style.background = ground;
      if (mark) dot.style.color = "#000";
      return element("li", { title: label }, dot, short(label, 44));
    }));
    numbers();
  };
  box.steps = [tell, measure, paint, look, mark];
  box.refresh = () => refreshAll([box]);
  drawn.set(picture, () => { const was = width; measure(); if (was !== width) { paint(); look(); mark(); } });
  resized.observe(picture);
  return box;
}
// Step by step for all: what is measured after something was drawn costs a layout of the page.
function refreshAll(boxes) {
  for (let step = 0; step < 5; step++) for (const box of boxes) box.steps?.[step]();
}
function selection(label, names, chosen, change) {
  const choice = element("select", {}, ...names.map(([value, name]) => element("option", { value, selected: value === chosen ? "" : null }, name)));
  choice.addEventListener("change", () => change(Number(choice.value)));
  return element("label", {}, label + " ", choice);
}
function perMember(group, owner, weight) {
  const held = new Array(group.members.length).fill(0);
  owner.forEach((m, p) => { if (m !== NOBODY) held[m] += weight(p); });
  return held;
}
