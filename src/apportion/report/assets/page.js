// Draws every picture from the page's JSON. Text goes in as text, never as markup.
"use strict";
(async () => {
const data = JSON.parse(await text(document.getElementById("data")));
// Large data comes packed: the page for thousands of groups must stay small enough to mail.
async function text(node) {
  if (node.type === "application/json") return node.textContent;
  const bytes = Uint8Array.from(atob(node.textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const NOBODY = -1;
// Okabe and Ito's eight colours, told apart by colour-blind readers; further members repeat them, lighter or darker.
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#6f6f6f"];
const colour = (m) => {
  if (m === NOBODY) return "var(--empty)";
  const base = COLOURS[m % COLOURS.length], turn = Math.floor(m / COLOURS.length) % 3;
  return turn === 0 ? base : `color-mix(in srgb, ${base} 62%, ${turn === 1 ? "white" : "black"})`;
};
const $ = (id) => document.getElementById(id);
const number = (n) => n === null || n === undefined ? "–" : n.toLocaleString("en-US");
const short = (text, most = 22) => text.length <= most ? text : text.slice(0, most - 9) + "…" + text.slice(-8);

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}
function svg(name, attributes = {}, text = null) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== null) node.textContent = text;
  return node;
}
function canvas(width, height, label) {
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  return picture;
}
function hint(node, text) { node.append(svg("title", {}, text)); return node; }
function table(head, rows, caption) {
  const numeric = head.map((_, i) => rows.every((row) => typeof row[i] === "number" || row[i] === "–" || row[i] === null));
  const line = (cells, tag) => element("tr", {}, ...cells.map((cell, i) =>
    element(tag, { class: numeric[i] ? "n" : null, scope: tag === "th" ? "col" : null }, typeof cell === "number" ? number(cell) : String(cell ?? "–"))));
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", {}, element("thead", {}, line(head, "th")), element("tbody", {}, ...rows.map((row) => line(row, "td")))));
}
// A figure: what it shows, the picture, and the same numbers as a table for who cannot see or wants to copy.
function figure(title, says, picture, head, rows, options = {}) {
  const box = element("figure", { class: options.wide ? "wide" : null, id: options.id });
  box.append(element("figcaption", {}, element("h3", {}, title), element("p", {}, says)));
  if (options.tools) box.append(options.tools);
  box.append(element("div", { class: "picture", tabindex: "0" }, picture));
  if (options.key) box.append(options.key);
  const more = element("details", {}, element("summary", {}, "The numbers"));
  more.addEventListener("toggle", () => { if (more.open && more.children.length === 1) more.append(table(head, rows(), title)); });
  box.append(more);
  return box;
}
function key(labels) {
  return element("ul", { class: "key" }, ...labels.map(([label, m]) => {
    const dot = element("i"); dot.style.background = colour(m);
    return element("li", { title: label }, dot, short(label, 28));
  }));
}
const sum = (values) => values.reduce((a, b) => a + b, 0);
function perMember(group, owner, weight) {
  const held = new Array(group.members.length).fill(0);
  owner.forEach((m, p) => { if (m !== NOBODY) held[m] += weight(p); });
  return held;
}

// --- the cluster ---------------------------------------------------------------------------------------------------
const lagOf = (group) => group.lag_known ? sum(group.lag) : null;
const movesOf = (group) => sum(group.history.rebalances.map((r) => r.moved ?? 0));
const needlessOf = (group) => sum(group.history.rebalances.map((r) => r.needless ?? 0));
const heaviest = (group) => {
  const total = lagOf(group);
  return total && group.members.length ? Math.max(0, ...perMember(group, group.owner, (p) => group.lag[p])) / total : null;
};
const COLUMNS = [
  ["Group", (g) => g.group], ["Verdict", (g) => g.verdict], ["State", (g) => g.state], ["Strategy", (g) => g.protocol],
  ["Members", (g) => g.members.length], ["Partitions", (g) => g.number.length], ["Lag", lagOf],
  ["Heaviest member", heaviest], ["Rebalances", (g) => g.history.rebalances.length],
  ["Moved", movesOf], ["Needless", needlessOf],
];
const rank = { OK: 0, "": 1, WARN: 2, REWIND: 3, STALL: 4, STOP: 5 };
const mood = (verdict) => verdict === "OK" ? "ok" : verdict === "WARN" ? "warn" : verdict ? "bad" : "";
const shown = data.groups.map((group, i) => {
  const values = COLUMNS.map(([, value]) => value(group));
  return { group, i, values, text: [group.group, group.state, group.protocol, group.verdict].join(" ").toLowerCase(), row: null };
});
let order = { column: 6, down: true }, current = null;

function rowOf(entry) {
  if (entry.row) return entry.row;
  const { group, values } = entry;
  const cells = values.map((value, c) => {
    if (c === 0) {
      const link = element("a", { href: "#group=" + encodeURIComponent(group.group) }, value || "(no name)");
      return element("td", { class: "name" }, link);
    }
    if (c === 1) return element("td", { class: "verdict " + mood(value), title: group.why || null }, value || "–");
    if (c === 7) return element("td", { class: "n" }, value === null ? "–" : Math.round(value * 100) + " %");
    return typeof value === "number" || value === null ? element("td", { class: "n" }, number(value)) : element("td", {}, value || "–");
  });
  entry.row = element("tr", {}, ...cells);
  return entry.row;
}
function drawCluster() {
  const wanted = $("find").value.trim().toLowerCase();
  const c = order.column, sign = order.down ? -1 : 1;
  const weight = (v) => c === 1 ? rank[v] ?? 9 : v;
  const rows = shown.filter((entry) => entry.text.includes(wanted)).sort((a, b) => {
    const x = weight(a.values[c]), y = weight(b.values[c]);
    if (x === null || y === null) return (x === null) - (y === null) || a.i - b.i;
    return (x < y ? -1 : x > y ? 1 : 0) * sign || a.i - b.i;
  });
  $("groups").tBodies[0].replaceChildren(...rows.map(rowOf));
  $("count").textContent = `${number(rows.length)} of ${number(shown.length)} groups`;
  [...$("groups").tHead.rows[0].cells].forEach((cell, i) => {
    cell.setAttribute("aria-sort", i === c ? (order.down ? "descending" : "ascending") : "none");
    cell.querySelector("span").textContent = i === c ? (order.down ? " ▾" : " ▴") : "";
  });
}
function headCluster() {
  COLUMNS.forEach(([label, value], i) => {
    const button = element("button", { type: "button" }, label, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      order = { column: i, down: order.column === i ? !order.down : typeof value(data.groups[0] ?? {}) === "number" };
      drawCluster();
    });
    $("groups").tHead.rows[0].append(element("th", { scope: "col", class: i >= 4 ? "n" : null }, button));
  });
}

// --- one group -----------------------------------------------------------------------------------------------------
function lagBars(group, planIndex) {
  const plans = [group.now, ...group.plans], chosen = group.plans[planIndex];
  const weighted = group.lag_known && sum(group.lag) > 0;
  const weight = weighted ? (p) => group.lag[p] : () => 1;
  const sides = [["now", group.now], [chosen ? chosen.assignor : "", chosen]].filter(([, plan]) => plan);
  const most = Math.max(1, ...sides.flatMap(([, plan]) => perMember(group, plan.owner, weight)));
  const bound = weighted && chosen ? chosen.measures.lag_bound : null;
  const members = group.members.map((_, m) => m), left = 190, width = 560, bar = 15, gap = 10;
  const step = sides.length * (bar + 2) + gap, shownMembers = members.slice(0, 120);
  const height = shownMembers.length * step + 34, scale = (width - left - 70) / most;
  const picture = canvas(width, height, `${weighted ? "Lag" : "Partitions"} of each member, now and as planned by ${chosen?.assignor ?? "nobody"}`);
  shownMembers.forEach((m, i) => {
    const top = 18 + i * step;
    picture.append(hint(svg("text", { x: left - 48, y: top + step / 2 - 2, "text-anchor": "end" }, short(group.members[m], 20)), group.members[m]));
    sides.forEach(([name, plan], s) => {
      const y = top + s * (bar + 2);
      let x = left;
      const mine = [];
      plan.owner.forEach((owner, p) => { if (owner === m) mine.push(p); });
      mine.sort((a, b) => weight(b) - weight(a));
      const large = mine.filter((p, n) => n < 40 || weight(p) * scale > 2), rest = mine.slice(large.length);
      for (const p of large) {
        const w = weight(p) * scale;
        if (w > 0) {
          picture.append(hint(svg("rect", { x, y, width: Math.max(w - .6, .6), height: bar, fill: colour(s === 0 ? 0 : 1), "fill-opacity": s === 0 ? .8 : .9 }),
            `${group.topics[group.topic_of[p]]}-${group.number[p]}: ${number(group.lag[p])} messages, ${name}`));
        }
        x += w;
      }
      if (rest.length) {
        const w = sum(rest.map(weight)) * scale;
        picture.append(hint(svg("rect", { x, y, width: w, height: bar, fill: colour(s === 0 ? 0 : 1), "fill-opacity": .5 }), `${rest.length} more partitions`));
        x += w;
      }
      picture.append(svg("text", { x: left - 6, y: y + bar - 3, "text-anchor": "end", class: "soft", "font-size": 10 }, s === 0 ? "now" : "plan"));
      picture.append(svg("text", { x: x + 5, y: y + bar - 3, class: "soft" }, number(sum(mine.map(weight)))));
    });
  });
  if (bound) {
    const x = left + bound * scale;
    picture.append(svg("line", { x1: x, x2: x, y1: 12, y2: height - 14, stroke: "var(--bad)", "stroke-width": 1.5, "stroke-dasharray": "5 4" }));
    picture.append(svg("text", { x, y: height - 2, "text-anchor": "middle", class: "soft" }, `no plan gets the heaviest below ${number(bound)}`));
  }
  const choice = element("select", { "aria-label": "Strategy to compare with now" },
    ...group.plans.map((plan, i) => element("option", { value: i, selected: i === planIndex ? "" : null }, plan.assignor)));
  choice.addEventListener("change", () => $("picture-lag").replaceWith(lagBars(group, Number(choice.value))));
  const rows = () => group.members.map((label, m) => [label, ...plans.map((plan) => sum(plan.owner.map((o, p) => o === m ? weight(p) : 0)))]);
  const what = weighted ? "messages still to read" : "partitions (no lag is known, or none is left)";
  return figure(weighted ? "Lag per member" : "Partitions per member",
    `${what[0].toUpperCase() + what.slice(1)}; a segment is a partition. Upper bar now, lower bar as planned.` + (members.length > 120 ? ` The first 120 of ${number(members.length)} members.` : ""),
    picture, ["Member", ...plans.map((plan) => plan.assignor)], rows,
    { id: "picture-lag", tools: element("p", { class: "tools" }, element("label", {}, "Planned by ", choice)) });
}

function heatMap(group) {
  const { rows, owners, labels, rebalances, left_out } = group.history;
  const left = 190, cell = Math.max(14, Math.min(46, Math.floor(900 / Math.max(1, rebalances.length)))), tall = rows.length > 60 ? 9 : 16;
  const picture = canvas(left + rebalances.length * cell + 10, rows.length * tall + 40, "Owner of each partition over the generations; a strong edge marks a move");
  rebalances.forEach((rebalance, g) => picture.append(svg("text", { x: left + g * cell + cell / 2, y: 14, "text-anchor": "middle", class: "soft" }, String(rebalance.generation ?? "?"))));
  rows.forEach((row, r) => {
    if (tall >= 12 || r % 2 === 0) picture.append(hint(svg("text", { x: left - 8, y: 22 + r * tall + tall * .75, "text-anchor": "end", "font-size": Math.min(12, tall + 2) }, short(row, 24)), row));
    let before = NOBODY;
    owners[r].forEach((m, g) => {
      const moved = m !== NOBODY && before !== NOBODY && m !== before;
      const box = svg("rect", { x: left + g * cell + 1, y: 22 + r * tall, width: cell - 2, height: tall - 1, fill: colour(m) });
      picture.append(hint(box, `${row}, generation ${rebalances[g].generation}: ${m === NOBODY ? "nobody" : labels[m]}${moved ? ", moved from " + labels[before] : ""}`));
      if (moved) picture.append(svg("rect", { x: left + g * cell - 1, y: 22 + r * tall, width: 4, height: tall - 1, fill: "var(--ink)" }));
      if (m !== NOBODY) before = m;
    });
  });
  const says = "One row a partition, one column a generation, one colour a member; a strong edge marks a move." + (left_out ? ` ${number(left_out)} partitions that moved least are left out.` : "");
  return figure("Owners over the generations", says, picture, ["Partition", ...rebalances.map((r) => "gen " + r.generation)],
    () => rows.map((row, r) => [row, ...owners[r].map((m) => m === NOBODY ? "–" : labels[m])]),
    { wide: true, id: "picture-owners", key: key(labels.slice(0, 24).map((label, m) => [label, m])) });
}

function timeline(group, chosen) {
  const { rebalances } = group.history, replays = group.replays;
  const sides = [["as it was", rebalances.map((r) => r.moves_then ?? r.moved ?? 0)], ...chosen.filter((i) => replays[i]).map((i) => [replays[i].assignor, replays[i].moves])];
  const most = Math.max(1, ...sides.flatMap(([, moves]) => moves.map((n) => n ?? 0)));
  const slot = Math.max(44, Math.min(110, Math.floor(1060 / Math.max(1, rebalances.length)))), tall = 130;
  const picture = canvas(40 + rebalances.length * slot, tall + 74, "Partitions moved by each rebalance, as it was and under other strategies");
  for (const part of [0, .5, 1]) {
    const y = 14 + tall * (1 - part);
    picture.append(svg("line", { x1: 34, x2: 40 + rebalances.length * slot, y1: y, y2: y, stroke: "var(--grid)" }));
    picture.append(svg("text", { x: 28, y: y + 4, "text-anchor": "end", class: "soft" }, number(Math.round(most * part))));
  }
  rebalances.forEach((r, g) => {
    const x = 42 + g * slot, wide = (slot - 14) / sides.length;
    sides.forEach(([name, moves], s) => {
      const n = moves[g] ?? 0, h = n / most * tall;
      picture.append(hint(svg("rect", { x: x + s * wide, y: 14 + tall - h, width: wide - 1, height: Math.max(h, n ? 1.5 : 0), fill: colour(s) }), `generation ${r.generation}, ${name}: ${number(n)} moved`));
    });
    picture.append(svg("text", { x: x + slot / 2 - 7, y: tall + 30, "text-anchor": "middle" }, String(r.generation ?? "?")));
    picture.append(hint(svg("text", { x: x + slot / 2 - 7, y: tall + 46, "text-anchor": "middle", class: "soft", "font-size": 11 }, short(r.cause || "?", Math.max(5, Math.floor(slot / 6)))), `${r.cause}; ${r.members} members; ${r.at ?? ""}`));
    picture.append(svg("text", { x: x + slot / 2 - 7, y: tall + 62, "text-anchor": "middle", class: "soft", "font-size": 11 }, `${r.members ?? "?"} m`));
  });
  const pick = (slotNumber) => {
    const choice = element("select", { "aria-label": `Strategy ${slotNumber + 1} to overlay` }, element("option", { value: -1 }, "none"),
      ...replays.map((replay, i) => element("option", { value: i, selected: chosen[slotNumber] === i ? "" : null }, replay.assignor)));
    choice.addEventListener("change", () => {
      const next = [...chosen]; next[slotNumber] = Number(choice.value);
      $("picture-timeline").replaceWith(timeline(group, next));
    });
    return element("label", {}, "Overlay ", choice);
  };
  return figure("Rebalances", "Partitions that changed owner in each generation, with the cause and the number of members.", picture,
    ["Generation", "At", "Cause", "Members", "Moved", "Kept", "Given", "Needless", ...replays.map((r) => "moved by " + r.assignor)],
    () => rebalances.map((r, g) => [r.generation, r.at, r.cause, r.members, r.moved, r.kept, r.given, r.needless, ...replays.map((replay) => replay.moves[g])]),
    { wide: true, id: "picture-timeline", tools: replays.length ? element("p", { class: "tools" }, pick(0), pick(1)) : null, key: key(sides.map(([name], s) => [name, s])) });
}

function handOver(group, g) {
  const { owners, labels, rebalances } = group.history;
  const flows = new Map();
  owners.forEach((row) => { const pair = row[g - 1] + ">" + row[g]; flows.set(pair, (flows.get(pair) ?? 0) + 1); });
  const links = [...flows].map(([pair, n]) => [...pair.split(">").map(Number), n]).filter(([a, b]) => a !== NOBODY || b !== NOBODY);
  const sides = [0, 1].map((s) => [...new Set(links.map((link) => link[s]))].sort((a, b) => a - b));
  const total = sum(links.map((link) => link[2])), tall = Math.max(160, Math.max(sides[0].length, sides[1].length) * 26), width = 560;
  const gapTotal = 8 * Math.max(sides[0].length, sides[1].length), unit = (tall - gapTotal) / Math.max(1, total);
  const picture = canvas(width, tall + 30, "Partitions from old owner (left) to new owner (right)");
  const place = sides.map((side, s) => {
    let y = 20; const at = new Map();
    for (const m of side) {
      const n = sum(links.filter((link) => link[s] === m).map((link) => link[2]));
      at.set(m, { y, next: y });
      picture.append(svg("rect", { x: s ? width - 172 : 160, y, width: 12, height: Math.max(n * unit, 1), fill: m === NOBODY ? "var(--soft)" : colour(m) }));
      const label = m === NOBODY ? "nobody" : labels[m];
      picture.append(hint(svg("text", { x: s ? width - 154 : 154, y: y + Math.max(n * unit, 10) / 2 + 4, "text-anchor": s ? "start" : "end" }, `${short(label, 16)} ${n}`), label));
      y += n * unit + 8;
    }
    return at;
  });
  links.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [a, b, n] of links) {
    const from = place[0].get(a), to = place[1].get(b), h = Math.max(n * unit, 1), x1 = 172, x2 = width - 172, middle = (x1 + x2) / 2;
    const band = svg("path", { d: `M${x1},${from.next} C${middle},${from.next} ${middle},${to.next} ${x2},${to.next} V${to.next + h} C${middle},${to.next + h} ${middle},${from.next + h} ${x1},${from.next + h} Z`,
      fill: colour(b), "fill-opacity": a === b ? .22 : .7 });
    picture.append(hint(band, `${n} from ${a === NOBODY ? "nobody" : labels[a]} to ${b === NOBODY ? "nobody" : labels[b]}`));
    from.next += n * unit; to.next += n * unit;
  }
  const choice = element("select", { "aria-label": "Rebalance" }, ...rebalances.slice(1).map((r, i) =>
    element("option", { value: i + 1, selected: i + 1 === g ? "" : null }, `generation ${r.generation}: ${r.cause}`)));
  choice.addEventListener("change", () => $("picture-handover").replaceWith(handOver(group, Number(choice.value))));
  return figure("One rebalance", "From old owner to new owner; a faint band stayed, a strong one moved or is new.", picture, ["From", "To", "Partitions"],
    () => links.map(([a, b, n]) => [a === NOBODY ? "nobody" : labels[a], b === NOBODY ? "nobody" : labels[b], n]),
    { id: "picture-handover", tools: element("p", { class: "tools" }, element("label", {}, "Rebalance ", choice)) });
}

function tradeOff(group) {
  const total = sum(group.lag), weighted = group.lag_known && total > 0;
  const points = [group.now, ...group.plans].map((plan, i) => {
    const m = plan.measures, held = perMember(group, plan.owner, weighted ? (p) => group.lag[p] : () => 1);
    return { name: plan.assignor, i, x: m.moves, y: Math.max(0, ...held) - Math.min(...(held.length ? held : [0])), squares: m.load_squares };
  });
  const width = 560, tall = 300, mostX = Math.max(1, ...points.map((p) => p.x)), mostY = Math.max(1, ...points.map((p) => p.y));
  const X = (v) => 70 + v / mostX * (width - 190), Y = (v) => 20 + (1 - v / mostY) * (tall - 70);
  const picture = canvas(width, tall, "Strategies as points: partitions moved against imbalance");
  for (const part of [0, .5, 1]) {
    picture.append(svg("line", { x1: 70, x2: width - 120, y1: Y(mostY * part), y2: Y(mostY * part), stroke: "var(--grid)" }));
    picture.append(svg("text", { x: 62, y: Y(mostY * part) + 4, "text-anchor": "end", class: "soft" }, number(Math.round(mostY * part))));
    picture.append(svg("text", { x: X(mostX * part), y: tall - 30, "text-anchor": "middle", class: "soft" }, number(Math.round(mostX * part))));
  }
  picture.append(svg("text", { x: (width - 50) / 2, y: tall - 8, "text-anchor": "middle", class: "soft" }, "partitions moved"));
  const best = points.filter((p) => !points.some((q) => q !== p && q.x <= p.x && q.y <= p.y && (q.x < p.x || q.y < p.y))).sort((a, b) => a.x - b.x || a.y - b.y);
  picture.append(svg("polyline", { points: best.map((p) => `${X(p.x)},${Y(p.y)}`).join(" "), fill: "none", stroke: "var(--soft)", "stroke-dasharray": "4 4" }));
  const used = [];
  for (const p of [...points].sort((a, b) => a.y - b.y)) {
    picture.append(hint(svg("circle", { cx: X(p.x), cy: Y(p.y), r: 6, fill: colour(p.i), stroke: "var(--panel)" }), `${p.name}: ${number(p.x)} moved, ${number(p.y)} between heaviest and lightest`));
    let y = Y(p.y) + 4;
    while (used.some((u) => Math.abs(u.y - y) < 13 && Math.abs(u.x - X(p.x)) < 110)) y -= 13;
    used.push({ x: X(p.x), y });
    picture.append(svg("text", { x: X(p.x) + 10, y }, p.name));
  }
  return figure("Moves against imbalance", `Imbalance is heaviest less lightest member, in ${weighted ? "messages of lag" : "partitions"}. The dashed line joins what no other strategy beats on both.`,
    picture, ["Strategy", "Moved", "Imbalance", "Sum of squared loads", "On the line"], () => points.map((p) => [p.name, p.x, p.y, p.squares, best.includes(p) ? "yes" : "no"]), { id: "picture-tradeoff" });
}

function crossRack(group) {
  const plans = [group.now, ...group.plans].filter((plan) => plan.rack_misses !== null);
  if (!plans.length) return null;
  const picture = canvas(560, plans.length * 26 + 10, "Share of partitions whose owner has no replica in its own rack");
  const rows = plans.map((plan) => [plan.assignor, plan.rack_misses, plan.assigned]);
  rows.forEach(([name, misses, assigned], i) => {
    const share = assigned ? misses / assigned : 0, y = 6 + i * 26;
    picture.append(svg("text", { x: 150, y: y + 13, "text-anchor": "end" }, name));
    picture.append(svg("rect", { x: 160, y, width: 300, height: 16, fill: "var(--empty)" }));
    picture.append(svg("rect", { x: 160, y, width: share * 300, height: 16, fill: colour(5) }));
    picture.append(svg("text", { x: 468, y: y + 13, class: "soft" }, `${Math.round(share * 100)} % (${number(misses)})`));
  });
  return figure("Cross-rack share", "Partitions that are read from another rack, because no replica is in their owner's.", picture, ["Strategy", "Cross-rack partitions", "Partitions"], () => rows, { id: "picture-racks" });
}

function strategies(group) {
  const head = ["Strategy", "Least load", "Most load", "Moved", "Kept", "Heaviest lag", "Lag bound", "Cross-rack", "Proof"];
  const rows = [group.now, ...group.plans].map((plan) => {
    const m = plan.measures;
    return [plan.assignor, m.load_min, m.load_max, m.moves, m.kept, m.lag_max ?? null, m.lag_bound ?? null, plan.rack_misses,
      Object.entries(plan.proof).map(([goal, how]) => `${goal} ${how}`).join(", ") || "–"];
  });
  return element("figure", { class: "wide", id: "picture-strategies" }, element("figcaption", {}, element("h3", {}, "What each strategy would do now"),
    element("p", {}, "“optimal” is a promise: no plan is better on that goal, given the goals before it.")), table(head, rows, "Strategies"));
}

function drawGroup(group) {
  current = group;
  const place = $("group");
  const fact = (label, value) => element("li", {}, label + " ", element("b", {}, value));
  place.replaceChildren(element("h2", {}, group.group || "(no name)"),
    element("ul", { class: "facts" }, fact("State", group.state || "–"), fact("Strategy", group.protocol || "–"), fact("Generation", number(group.generation)),
      fact("Members", number(group.members.length)), fact("Partitions", number(group.number.length)), fact("Lag", number(lagOf(group))), fact("Verdict", group.verdict || "–")),
    ...(group.why ? [element("p", {}, group.why)] : []));
  const box = element("div", { class: "figures" });
  if (group.members.length) {
    const first = Math.max(0, group.plans.findIndex((plan) => plan.assignor === "lag-aware"));
    box.append(strategies(group), lagBars(group, first), tradeOff(group));
  }
  const racks = group.members.length ? crossRack(group) : null;
  if (racks) box.append(racks);
  const { rebalances } = group.history;
  if (rebalances.length > 1) box.append(handOver(group, rebalances.length - 1));
  if (rebalances.length) {
    const cooperative = group.replays.findIndex((replay) => replay.assignor === "cooperative-sticky"), range = group.replays.findIndex((replay) => replay.assignor === "range");
    box.append(timeline(group, [cooperative, range]), heatMap(group));
  }
  if (!box.children.length) box.append(element("p", {}, "No members and no history: this group only commits, or it is empty."));
  place.append(box);
  for (const entry of shown) if (entry.row) entry.row.setAttribute("aria-current", entry.group === group ? "true" : "false");
}
function choose() {
  const name = location.hash.startsWith("#group=") ? decodeURIComponent(location.hash.slice(7)) : null;
  const group = data.groups.find((g) => g.group === name) ?? (current ? null : [...data.groups].sort((a, b) =>
    (b.members.length > 0) - (a.members.length > 0) || (lagOf(b) ?? -1) - (lagOf(a) ?? -1))[0]);
  if (group && group !== current) { drawGroup(group); if (name !== null) $("group").focus({ preventScroll: false }); }
}

$("title").textContent = data.title;
$("source").textContent = [data.source, data.at].filter(Boolean).join(" · ");
$("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
});
$("find").addEventListener("input", drawCluster);
addEventListener("hashchange", choose);
const started = performance.now();
headCluster(); drawCluster(); choose();
document.documentElement.dataset.drawnMs = (performance.now() - started).toFixed(0);
})();
