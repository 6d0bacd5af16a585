// The page itself: the list of groups, and the one that was chosen. Text goes in as text, never as markup.
// Large data comes packed: the page for thousands of groups must stay small enough to mail.
async function unpacked(node) {
  if (node.type !== "application/gzip") return node.textContent;
  const letters = atob(node.textContent), bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i); // a callback a letter takes ten times as long
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const share = (value) => Math.round(value * 100) + " %";
// How a value is written where that is not as a number or a text is.
const WRITTEN = {
  behind_s: (value) => lasting(value),
  trend: (value) => (value > 0 ? "+" : "") + number(value) + "/s",
  catch_up_s: (value) => value === Infinity ? "never" : value < 1 ? "now" : "in " + lasting(value),
  heaviest: share,
};
const MOOD = { OK: "ok", WARN: "warn", ERR: "bad" };
const MOST_GROUPS = 200;
// Seconds in the largest unit that leaves a whole number.
const lasting = (seconds) => seconds < 90 ? number(Math.round(seconds)) + " s" : seconds < 5400 ? number(Math.round(seconds / 60)) + " min" : seconds < 129600 ? number(Math.round(seconds / 3600)) + " h" : number(Math.round(seconds / 86400)) + " d";
// With a trend the server has a pace: no end that it can name is never.
const valueOf = (row, name) => name === "catch_up_s" && row.catch_up_s === null && row.trend !== null && row.lag ? Infinity
  : name === "why" ? (row.verdict !== "OK" && row.why[0]) || null : row[name] ?? null;

// A row for each topic and group that reads it, the one that is furthest behind first.
function byTopic(entries, wanted) {
  const rows = entries.flatMap(({ row }) => row.topics.map(([topic, lag, behind]) => [topic, row.group || "(no name)", row.verdict || "–", lag, behind ?? null]));
  const words = (row) => (row[0] + " " + row[1]).toLowerCase();
  return rows.filter((row) => words(row).includes(wanted)).sort((a, b) => (b[4] ?? -1) - (a[4] ?? -1) || (b[3] ?? -1) - (a[3] ?? -1) || (a[0] < b[0] ? -1 : 1));
}

function cluster(data) {
  const { rank, trouble } = data.list;
  const { columns } = data.list, isText = new Set(columns.filter(([, , , text]) => text).map(([name]) => name));
  const at = Object.fromEntries(columns.map(([name], i) => [name, i]));
  const lags = new Map(); // of a live page: each group's lag at the last rounds, oldest first
  const entryOf = (row, i) => ({
    row, i, line: null, values: columns.map(([name]) => valueOf(row, name)),
    get text() { // what Find looks in, put together when somebody looks
      const known = [row.group, row.kind, row.state, row.protocol, row.verdict, ...row.topics.map(([topic]) => topic), ...row.who].join(" ").toLowerCase();
      Object.defineProperty(this, "text", { value: known });
      return known;
    },
  });
  const remember = (rows) => {
    for (const row of data.live ? rows : []) {
      lags.set(row.group, row.lags ?? [...(lags.get(row.group) ?? []), row.lag ?? null].slice(-60));
      delete row.lags;
    }
  };
  remember(data.rows);
  let shown = data.rows.map(entryOf), current = null;
  let order = { column: at.verdict, down: true }, all = false, only = null, matches = [];

  const line = (name) => { const values = lags.get(name) ?? []; return sparkline(values, `lag in ${count(values.length, "round")}: ${fromTo(values)}`); };
  let round = 0;
  function lineOf(entry) {
    const { row } = entry;
    if (entry.line && data.live && entry.round !== round) entry.line.cells[at.lag].firstChild.replaceWith(line(row.group));
    entry.round = round;
    if (entry.line) return entry.line;
    const cells = entry.values.map((value, c) => {
      const [name] = columns[c], written = WRITTEN[name];
      if (name === "group") return element("th", { class: "name", scope: "row" }, element("a", { href: "#group=" + encodeURIComponent(row.group), title: value }, short(value, narrow() ? 18 : 44) || "(no name)"));
      if (name === "verdict") return element("td", { class: "verdict " + (MOOD[value] ?? "") }, value || "–");
      if (name === "why") return element("td", { class: "why", title: row.why.join(" ") || null }, element("p", {}, value || "–"));
      if (isText.has(name)) return element("td", {}, value || "–");
      if (name === "lag" && data.live) return element("td", { class: "n line" }, line(row.group), number(value));
      return element("td", { class: "n" }, value !== null && written ? written(value) : number(value));
    });
    entry.line = element("tr", {}, ...cells);
    if (row.group === current) entry.line.setAttribute("aria-current", "true");
    return entry.line;
  }
  const verdicts = Object.keys(MOOD).reverse().map((verdict) => {
    const button = element("button", { type: "button", class: "verdict " + MOOD[verdict], title: `show groups with ${verdict} alone` });
    button.addEventListener("click", () => { only = only === verdict ? null : verdict; draw(); });
    $("verdicts").append(button);
    return [verdict, button];
  });
  function draw() {
    const wanted = $("find").value.trim().toLowerCase(), c = order.column, sign = order.down ? -1 : 1;
    const weight = (v) => c === at.verdict ? rank[v] ?? 1 : v;
    // The order that everything begins with, as the command line has it: of equal verdicts the longest behind, and so on.
    const graver = (a, b) => c !== at.verdict ? 0 : trouble.slice(1).reduce((d, name) => d || (b.row[name] ?? -1) - (a.row[name] ?? -1), 0);
    const found = wanted ? shown.filter((entry) => entry.text.includes(wanted)) : shown;
    matches = found.filter((entry) => only === null || entry.row.verdict === only).sort((a, b) => {
      const x = weight(a.values[c]), y = weight(b.values[c]);
      if (x === null || y === null) return (x === null) - (y === null) || a.i - b.i;
      return (x < y ? -1 : x > y ? 1 : 0) * sign || graver(a, b) || a.i - b.i;
    });
    for (const [verdict, button] of verdicts) {
      button.textContent = `${verdict} ${number(found.filter((entry) => entry.row.verdict === verdict).length)}`;
      button.setAttribute("aria-pressed", String(only === verdict));
    }
    const lines = all ? matches : matches.slice(0, MOST_GROUPS);
    $("groups").tBodies[0].replaceChildren(...lines.map(lineOf));
    // A column that says nothing of the groups that are shown is hidden.
    $("silent").textContent = columns.map(([name], i) => i && i !== c && !lines.some(({ values }) => (values[i] ?? "") !== "") ? `#groups tr > :nth-child(${i + 1}) { display: none }` : "").join("");
    $("count").textContent = `${number(matches.length)} of ${count(shown.length, "group")}` + (lines.length < matches.length ? `, the first ${MOST_GROUPS} shown` : "");
    $("all").hidden = lines.length === matches.length;
    [...$("groups").tHead.rows[0].cells].forEach((cell, i) => {
      cell.setAttribute("aria-sort", i === c ? (order.down ? "descending" : "ascending") : "none");
      cell.querySelector("span").textContent = i === c ? (order.down ? " ▾" : " ▴") : "";
    });
    topics();
  }
  function topics() {
    while ($("topics").children.length > 1) $("topics").lastChild.remove();
    if (!$("topics").open) return;
    const rows = byTopic(shown, $("find").value.trim().toLowerCase()), timed = rows.some((row) => row[4] !== null);
    const written = rows.slice(0, 5 * MOST_GROUPS).map(([topic, group, verdict, lag, behind]) => [topic, group, verdict, lag, ...(timed ? [behind === null ? "–" : behind < 90 ? Math.round(behind) + " s" : lasting(behind)] : [])]);
    $("topics").append(table(["Topic", "Group that reads it", "Verdict", "Lag", ...(timed ? ["Behind"] : [])], written, "Topics and the groups that read them"));
    if (rows.length > 5 * MOST_GROUPS) $("topics").append(element("p", {}, `These are the first ${number(5 * MOST_GROUPS)} of ${number(rows.length)} rows. Type into Find to see others.`));
  }
  columns.forEach(([name, label, meaning], i) => {
    const button = element("button", { type: "button", title: meaning || null }, label, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      order = { column: i, down: order.column === i ? !order.down : !isText.has(name) };
      draw();
    });
    $("groups").tHead.rows[0].append(element("th", { scope: "col", class: isText.has(name) || name === "verdict" || name === "why" ? null : "n" }, button));
  });
  goesOn($("groups").parentElement);
  $("find").addEventListener("input", draw);
  $("topics").addEventListener("toggle", topics);
  $("all").addEventListener("click", () => { all = true; draw(); });
  draw();
  const mark = (name) => { current = name; for (const entry of shown) if (entry.line) { if (entry.row.group === name) entry.line.setAttribute("aria-current", "true"); else entry.line.removeAttribute("aria-current"); } };
  // Rows that stayed as they were are kept, with the reader's focus on them.
  const update = (rows) => {
    remember(rows); round += 1;
    const known = new Map(shown.map((entry) => [entry.row.group, entry])), active = document.activeElement, held = $("groups").contains(active) ? active.getAttribute("href") : null;
    shown = rows.map((row, i) => { const was = known.get(row.group); if (was?.row === row) { was.i = i; return was; } return entryOf(row, i); });
    draw();
    if (held) [...$("groups").tBodies[0].querySelectorAll("a")].find((link) => link.getAttribute("href") === held)?.focus({ preventScroll: true });
  };
  const first = () => matches[0]?.row;
  return { mark, update, first };
}

// Every group's answer to one question; a live server works it out when somebody asks, some groups at a time.
function switches(data) {
  const box = $("switches"), answer = element("div", { role: "status" });
  const show = (rows, note) => answer.replaceChildren(note ? element("p", {}, note) : "",
    rows.length ? table(Object.keys(rows[0]), rows.map((row) => Object.values(row)), "Should each group switch to the broker's protocol?") : "");
  box.append(answer);
  if (!data.live) {
    const rows = data.rows.filter((row) => row.switch).map((row) => row.switch);
    box.hidden = rows.length < 2;
    if (!box.hidden) show(rows, "");
    return;
  }
  box.addEventListener("toggle", async () => {
    let waiting = 1;
    while (box.open && waiting) {
      try {
        const { groups, waiting: left } = await (await fetch("api/v1/switch")).json();
        waiting = left;
        show(groups, waiting ? `${count(waiting, "group")} still to be worked out …` : groups.length ? "" : "No group of consumers has members just now, so there is nothing to switch.");
      } catch { show([], "The server does not answer. Close this and open it again to ask once more."); return; }
    }
  });
}

// The whole cluster in a line, and its history under every strategy.
function overview(listed, totals = []) {
  const lags = listed.map((g) => g.lag).filter((n) => n !== null), past = listed.filter((g) => g.rebalances);
  const facts = [["Messages to read", lags.length ? sum(lags) : null], ["Rebalances", past.length ? sum(past.map((g) => g.rebalances)) : null],
    ["Partitions moved", past.length ? sum(past.map((g) => g.moved)) : null], ["of them needlessly", past.length ? sum(past.map((g) => g.needless)) : null]];
  $("facts").replaceChildren(...facts.filter(([, n]) => n !== null).map(([label, n]) => element("li", {}, label + " ", element("b", {}, number(n)))));
  const rows = [...totals];
  if (!(rows[0]?.[1] > 1)) return;
  const apart = rows[0][3], uneven = (row) => row[3] > apart;
  rows.sort((a, b) => uneven(a) - uneven(b)); // those that are not to be compared stand last
  const box = figure({
    id: "totals", title: "Every group's history under each strategy", wide: true,
    finding: () => rows.some(uneven) ? "The hollow bars are not to be compared: these strategies share the work less evenly than the groups did, so moving less is no gain." : "",
    sentences: () => "How many partitions each strategy would have moved in all these histories, and how far apart the fullest and the emptiest member were at worst.",
    draw: (width) => rowsOfBars(width, rows.map(([name, , n, skew]) => [name, n, width < 460 ? `${number(n)} (${number(skew)} apart)` : `${number(n)} moved, members at most ${number(skew)} apart`]),
      "Partitions moved over the whole history, as it was and under each strategy", (i) => i ? colour(0) : "var(--then)", (i) => uneven(rows[i])),
    head: () => ["Strategy", "Groups", "Moved", "Most less fewest partitions, at worst"], rows: () => rows,
  });
  $("overview").append(element("div", { class: "figures" }, box));
  box.refresh();
}

// A table among the pictures: what members of a streams or share group run or share, how old their lag is, or where members are.
function inTable(name, content) {
  return element("figure", { class: "wide", id: `picture-${name}`, "aria-labelledby": `title-${name}` },
    element("figcaption", {}, element("h3", { id: `title-${name}` }, content.title)), table(content.head, content.rows, content.title));
}

// Seconds until all is read; null where the lag does not shrink.
function inTime(seconds) {
  if (seconds === null) return "never, at this rate";
  const steps = [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]], [unit, name] = steps.find(([size]) => seconds >= size) ?? steps.at(-1);
  return seconds < 1 ? "now" : "in " + count(Math.round(seconds / unit), name);
}

// Pictures of what the diagnosis is about come first.
const OF_LAG = ["lines", "lag", "times"];
const LEADING = { rebalancing: ["time", "timeline", "handover", "owners"], nobody_reads: ["lines", "lag", "seats"], hot_partition: OF_LAG, stuck_record: OF_LAG, slow_member: OF_LAG, too_few_members: OF_LAG };

function drawGroup(group) {
  const fact = (label, value, look = null) => element("li", { class: look }, label + " ", element("b", {}, value));
  const box = element("div", { class: "figures" }), figures = [], past = group.history.rebalances;
  const rollout = group.history.planned, some = group.members.length && group.number.length, planned = some && group.plans.length && !rollout;
  if (planned) figures.push(strategies(group));
  if (group.roles) figures.push(inTable("roles", group.roles));
  if (some && group.switch) figures.push(...switchFigures(group));
  if (some && !rollout) figures.push(lagBars(group), capacities(group));
  if (group.lines) figures.push(lagLines(group));
  if (group.times) figures.push(inTable("times", group.times));
  if (group.seats) figures.push(inTable("seats", group.seats));
  if (planned) figures.push(tradeOff(group), crossRack(group));
  if (past.length > 1 && group.history.rows.length) figures.push(handOver(group));
  if (past.length) figures.push(inTimeline(group), rollout ? null : timeline(group));
  if (group.history.rows.length) figures.push(heatMap(group));
  const leading = LEADING[group.diagnosis?.kind] ?? [], place = (f) => leading.indexOf(f.id.slice("picture-".length)) + 1 || figures.length;
  const drawn = figures.filter(Boolean).sort((a, b) => place(a) - place(b)), narrow = drawn.filter((f) => !f.classList.contains("wide"));
  if (narrow.length % 2) narrow.at(-1).classList.add("wide"); // no hole beside the last one
  const nothing = group.members.length ? "Its members hold no partitions of topics, so there is nothing to plan."
    : past.length ? "It has no members now, so there is nothing to plan; its history is below." : "No members and no history: this group only commits, or it is empty.";
  $("group").replaceChildren(
    element("h2", { id: "name", tabindex: "-1" }, group.group || "(no name)"),
    element("ul", { class: "facts" }, fact("Verdict", group.verdict || "–", MOOD[group.verdict]), fact("State", group.state || "–"), fact("Strategy", group.protocol || "–"),
      fact("Generation", number(group.generation)), fact("Members", number(group.members.length)), fact("Partitions", number(group.number.length)), fact("Lag", number(lagOf(group))),
      ...(group.catch_up_s === undefined ? [] : [fact("Caught up", inTime(group.catch_up_s))]),
      ...(group.advised_members === undefined ? [] : [fact("Members needed", number(group.advised_members))])),
    ...(group.why.length ? [element("ul", { class: "odd" }, ...group.why.map((sentence) => element("li", {}, sentence)))] : []),
    group.diagnosis?.sentence ? element("p", { class: "diagnosis" }, group.diagnosis.sentence, ...(group.diagnosis.next ? [" ", element("code", {}, group.diagnosis.next)] : [])) : "",
    group.lag_in_time ? element("p", { class: "lag-in-time" }, group.lag_in_time) : "",
    ...(rollout ? group.advice.map((sentence) => element("p", { class: "advice" }, sentence)) : []),
    some ? "" : element("p", {}, nothing),
    some && (group.kind === "classic" || group.kind === "consumer") && group.group ? element("p", { class: "note" }, "What a rolling restart would do to it, before it happens: ", element("code", {}, `apportion what-if … --group '${group.group.replaceAll("'", "'\\''")}' --rolling -o html > rollout.html`)) : "",
    box);
  box.append(...drawn);
  refreshAll(drawn);
}

// A page on its own has two lines a group: its row in the list, and all of it, which is read when it is chosen.
function dataOf(text) {
  const [head, ...lines] = text.split("\n"), data = JSON.parse(head), step = data.live ? 1 : 2;
  const rows = JSON.parse("[" + lines.filter((_, i) => i % step === 0).join(",") + "]");
  data.rows = rows.map((row) => Array.isArray(row) ? Object.fromEntries(data.list.fields.map((name, i) => [name, row[i]])) : row);
  data.whole = (name) => {
    const i = data.rows.findIndex((row) => row.group === name), { group: _, kind, state, protocol, verdict, why, diagnosis } = data.rows[i];
    const group = { ...JSON.parse(lines[2 * i + 1]), group: name, kind, state, protocol, verdict, why, diagnosis }, past = group.history;
    past.rows = past.rows.map((row) => typeof row === "number" ? `${group.topics[group.topic_of[row]]}-${group.number[row]}` : row);
    group.plans = rowsOf(group.plans); group.replays = rowsOf(group.replays); group.history.rebalances = rowsOf(group.history.rebalances);
    group.now.owner ??= group.owner;
    return group;
  };
  return data;
}

(async () => {
  const data = dataOf(await unpacked($("data"))), began = performance.now();
  $("source").replaceChildren(...sentence([data.source, data.at && `page made ${data.at.slice(0, 16).replace("T", " ")} UTC`].filter(Boolean).join(" · ")));
  $("theme").addEventListener("click", () => {
    const root = document.documentElement.dataset, dark = root.theme ? root.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.theme = dark ? "light" : "dark";
  });
  let current = null, drawn = null;
  const heading = () => { $("name").focus({ preventScroll: true }); $("name").scrollIntoView(); };
  const list = cluster(data), live = data.live ? { number: data.live.number } : null;
  const asked = () => { try { return location.hash.startsWith("#group=") ? decodeURIComponent(location.hash.slice(7)) : null; } catch { return null; } };
  const notes = (sentences) => $("notes").replaceChildren(...sentences.map((sentence) => element("li", {}, sentence)));
  const clock = (at) => at ? at.slice(0, 19).replace("T", " ") + " UTC" : "";
  const status = (text) => { $("source").textContent = text; };
  const choose = () => {
    const name = asked(), row = data.rows.find((one) => one.group === name) ?? (current !== null ? null : list.first());
    if (!row || row.group === current) return;
    current = row.group;
    list.mark(current);
    if (live) { drawn = null; $("group").replaceChildren(element("h2", { id: "name", tabindex: "-1" }, current || "(no name)")); follow(current); } else drawGroup(data.whole(current));
    if (name !== null) heading();
  };
  const single = () => { if (data.rows.length < 2) document.documentElement.dataset.single = ""; else delete document.documentElement.dataset.single; };
  const waits = () => {
    $("group").textContent = !data.live ? "There are no consumer groups: no consumer has joined one or committed yet, or this user may not see them."
      : !data.at ? "This page waits for the first answer of the cluster. It comes by itself; if it takes long, the reason is above."
      : "The cluster answers, and has no consumer group yet. This page waits for one: it shows a group as soon as somebody joins or commits. If there are groups already, this server's user may not see them (ACL Describe).";
  };
  const onRound = (round) => {
    data.at = round.at;
    const byName = new Map(round.whole ? [] : data.rows.map((row) => [row.group, row]));
    for (const row of round.groups) byName.set(row.group, { ...byName.get(row.group), ...row });
    for (const name of round.gone) byName.delete(name);
    data.rows = [...byName.values()].sort((a, b) => (a.group < b.group ? -1 : 1));
    keepingPlace($("group"), () => { list.update(data.rows); overview(data.rows); notes(round.notes); single(); });
    status(`live, as of ${clock(round.at) || "no round yet"}`);
    if (!data.rows.length) { waits(); current = null; return; }
    if (current === null || (asked() !== null && asked() !== current)) choose(); // the group that a link names may come later
  };
  const onGroup = (group) => {
    if (group.group !== current) return;
    if (drawn) keepingPlace($("group"), () => drawGroup(group)); else { const on = document.activeElement === $("name"); drawGroup(group); if (on) heading(); }
    drawn = group;
    document.documentElement.dataset.groupDrawn = group.group;
  };
  const follow = live ? listen(live, onRound, onGroup, () => status("The server does not answer; this page shows its last answer.")) : () => {};
  overview(data.rows, data.totals); switches(data);
  addEventListener("hashchange", choose);
  if (live) { notes(data.live.notes); status(data.at ? `live, as of ${clock(data.at)}` : "live, waiting for the first round"); }
  if (data.rows.length) choose(); else waits();
  if (live && current === null) follow(null);
  single();
  document.documentElement.dataset.drawnMs = (performance.now() - began).toFixed(0);
})();
