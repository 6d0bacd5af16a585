// The page itself: the list of groups, and the one that was chosen. Text goes in as text, never as markup.
// Large data comes packed: the page for thousands of groups must stay small enough to mail.
async function unpacked(node) {
  if (node.type === "application/json") return node.textContent;
  const bytes = Uint8Array.from(atob(node.textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}

const moved = (r) => r.moved ?? 0;
const movesOf = (group) => group.history.rebalances.length ? sum(group.history.rebalances.map(moved)) : null;
const needlessOf = (group) => group.history.rebalances.length ? sum(group.history.rebalances.map((r) => r.needless ?? 0)) : null;
const heaviest = (group) => {
  const total = lagOf(group);
  return total && group.members.length ? Math.max(0, ...perMember(group, group.owner, (p) => group.lag[p])) / total : null;
};
const share = (value) => Math.round(value * 100) + " %";
// What the page's list has besides the columns that it shares with the command line: [field, label, what it means].
const MORE = [
  ["rebalances", "Rebalances", "all that are remembered"],
  ["moved", "Moved", "partitions that went from one member to another that stayed, in all these rebalances"],
  ["needless", "Needless", "moves that the fairest sharing did not need"],
];
// How a value is written where that is not as a number or a text is.
const WRITTEN = {
  behind_s: (value) => lasting(value),
  trend: (value) => (value > 0 ? "+" : "") + number(value) + "/s",
  catch_up_s: (value) => value === Infinity ? "never" : value < 1 ? "now" : "in " + lasting(value),
  heaviest: share,
};
const TEXTS = new Set(["group", "verdict", "kind", "state", "protocol"]);
const RARE = new Set(["behind_s", "trend", "catch_up_s", "heaviest", "last_hour", "rebalances", "moved", "needless"]); // left out of a page where no group has one
const RANK = { OK: 0, "": 1, WARN: 2, ERR: 3 };
const MOOD = { OK: "ok", WARN: "warn", ERR: "bad" };
const MOST_GROUPS = 200;
// Seconds in the largest unit that leaves a whole number.
const lasting = (seconds) => seconds < 90 ? number(Math.round(seconds)) + " s" : seconds < 5400 ? number(Math.round(seconds / 60)) + " min" : seconds < 129600 ? number(Math.round(seconds / 3600)) + " h" : number(Math.round(seconds / 86400)) + " d";
// With a trend the server has a pace: no end that it can name is never.
const valueOf = (row, name) => name === "catch_up_s" && row.catch_up_s === null && row.trend !== null && row.lag ? Infinity : row[name] ?? null;

// A row for each topic and group that reads it, the one that is furthest behind first.
function byTopic(entries, wanted) {
  const rows = entries.flatMap(({ group, row }) => (row.topics ?? []).map(([topic, lag, behind]) => [topic, group.group || "(no name)", row.verdict || "–", lag, behind ?? null]));
  const words = (row) => (row[0] + " " + row[1]).toLowerCase();
  return rows.filter((row) => words(row).includes(wanted)).sort((a, b) => (b[4] ?? -1) - (a[4] ?? -1) || (b[3] ?? -1) - (a[3] ?? -1) || (a[0] < b[0] ? -1 : 1));
}

function cluster(data) {
  const columns = [...data.list.columns, ...MORE].filter(([name]) => data.live || !RARE.has(name) || data.groups.some((group) => valueOf(rowFor(group), name) !== null));
  const at = Object.fromEntries(columns.map(([name], i) => [name, i]));
  const lags = new Map(); // of a live page: each group's lag at the last rounds, oldest first
  const entryOf = (group, i) => {
    const row = rowFor(group), values = columns.map(([name]) => valueOf(row, name));
    const known = [row.group, row.kind, row.state, row.protocol, row.verdict, ...(row.topics ?? []).map(([topic]) => topic), ...(row.who ?? [])];
    return { group, i, values, row, text: known.join(" ").toLowerCase(), line: null };
  };
  const remember = (groups) => {
    for (const group of data.live ? groups : []) {
      lags.set(group.group, group.lags ?? [...(lags.get(group.group) ?? []), group.lag ?? null].slice(-60));
      delete group.lags;
    }
  };
  remember(data.groups);
  let shown = data.groups.map(entryOf), current = null;
  let order = { column: at.verdict, down: true }, all = false, only = null;

  const line = (name) => { const values = lags.get(name) ?? []; return sparkline(values, `lag in ${count(values.length, "round")}: ${fromTo(values)}`); };
  let round = 0;
  function lineOf(entry) {
    if (entry.line && data.live && entry.round !== round) entry.line.cells[at.lag].firstChild.replaceWith(line(entry.group.group));
    entry.round = round;
    if (entry.line) return entry.line;
    const cells = entry.values.map((value, c) => {
      const [name] = columns[c], written = WRITTEN[name];
      if (name === "group") return element("th", { class: "name", scope: "row" }, element("a", { href: "#group=" + encodeURIComponent(entry.group.group), title: value }, short(value, narrow() ? 18 : 44) || "(no name)"));
      if (name === "verdict") return element("td", { class: "verdict " + (MOOD[value] ?? ""), title: entry.group.why.join(" ") || null }, value || "–");
      if (TEXTS.has(name)) return element("td", {}, value || "–");
      if (name === "lag" && data.live) return element("td", { class: "n line" }, line(entry.group.group), number(value));
      return element("td", { class: "n" }, value !== null && written ? written(value) : number(value));
    });
    entry.line = element("tr", {}, ...cells);
    if (entry.group.group === current) entry.line.setAttribute("aria-current", "true");
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
    const weight = (v) => c === at.verdict ? RANK[v] ?? 1 : v;
    // The order that everything begins with, as the command line has it: of equal verdicts the longest behind, and so on.
    const graver = (a, b) => c !== at.verdict ? 0 : data.list.trouble.slice(1).reduce((d, name) => d || (b.row[name] ?? -1) - (a.row[name] ?? -1), 0);
    const found = shown.filter((entry) => entry.text.includes(wanted));
    const matches = found.filter((entry) => only === null || entry.row.verdict === only).sort((a, b) => {
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
  columns.forEach(([name, label, says], i) => {
    const button = element("button", { type: "button", title: says || null }, label, element("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      order = { column: i, down: order.column === i ? !order.down : !TEXTS.has(name) || name === "verdict" };
      draw();
    });
    $("groups").tHead.rows[0].append(element("th", { scope: "col", class: TEXTS.has(name) ? null : "n" }, button));
  });
  goesOn($("groups").parentElement);
  $("find").addEventListener("input", draw);
  $("topics").addEventListener("toggle", topics);
  $("all").addEventListener("click", () => { all = true; draw(); });
  draw();
  const mark = (name) => { current = name; for (const entry of shown) if (entry.line) { if (entry.group.group === name) entry.line.setAttribute("aria-current", "true"); else entry.line.removeAttribute("aria-current"); } };
  // Rows that stayed as they were are kept, with the reader's focus on them.
  const update = (groups) => {
    remember(groups); round += 1;
    const known = new Map(shown.map((entry) => [entry.group.group, entry])), active = document.activeElement, held = $("groups").contains(active) ? active.getAttribute("href") : null;
    shown = groups.map((group, i) => { const was = known.get(group.group); if (was?.group === group) { was.i = i; return was; } return entryOf(group, i); });
    draw();
    if (held) [...$("groups").tBodies[0].querySelectorAll("a")].find((link) => link.getAttribute("href") === held)?.focus({ preventScroll: true });
  };
  return { mark, update };
}

// Every group's answer to one question; a live server works it out when somebody asks, some groups at a time.
function switches(data) {
  const box = $("switches"), answer = element("div", { role: "status" });
  const show = (rows, says) => answer.replaceChildren(says ? element("p", {}, says) : "",
    rows.length ? table(Object.keys(rows[0]), rows.map((row) => Object.values(row)), "Should each group switch to the broker's protocol?") : "");
  box.append(answer);
  if (!data.live) {
    const rows = data.groups.filter((group) => group.switch?.row).map((group) => group.switch.row);
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
function overview(groups) {
  const listed = groups.map(rowFor), lags = listed.map((g) => g.lag).filter((n) => n !== null), past = listed.filter((g) => g.rebalances);
  const facts = [["Messages to read", lags.length ? sum(lags) : null], ["Rebalances", past.length ? sum(past.map((g) => g.rebalances)) : null],
    ["Partitions moved", past.length ? sum(past.map((g) => g.moved)) : null], ["of them needlessly", past.length ? sum(past.map((g) => g.needless)) : null]];
  $("facts").replaceChildren(...facts.filter(([, n]) => n !== null).map(([label, n]) => element("li", {}, label + " ", element("b", {}, number(n)))));
  const replayed = groups.filter((g) => g.replays?.length);
  if (replayed.length < 2) return;
  const names = [...new Set(replayed.flatMap((g) => g.replays.map((r) => r.assignor)))].sort();
  const rows = names.map((name) => {
    const mine = replayed.flatMap((g) => g.replays.filter((r) => r.assignor === name));
    return [name, mine.length, sum(mine.map((r) => sum(r.moves))), Math.max(...mine.map((r) => r.skew_max ?? 0))];
  });
  rows.unshift(["as it was", replayed.length, sum(replayed.map((g) => movesOf(g) ?? 0)), Math.max(...replayed.map((g) => g.replays[0].skew_max_then ?? 0))]);
  const apart = rows[0][3], uneven = (row) => row[3] > apart;
  rows.sort((a, b) => uneven(a) - uneven(b)); // those that are not to be compared stand last
  const box = figure({
    id: "totals", title: "Every group's history under each strategy", wide: true,
    says: () => "How many partitions each strategy would have moved in all these histories, and how far apart the fullest and the emptiest member were at worst."
      + (rows.some(uneven) ? " The hollow bars are not to be compared: these strategies share the work less evenly than the groups did, so moving less is no gain." : ""),
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

function drawGroup(group) {
  group.plans = rowsOf(group.plans);
  const fact = (label, value, look = null) => element("li", { class: look }, label + " ", element("b", {}, value));
  const box = element("div", { class: "figures" }), figures = [], past = group.history.rebalances;
  const some = group.members.length && group.number.length, planned = some && group.plans.length;
  if (planned) figures.push(strategies(group));
  if (group.roles) figures.push(inTable("roles", group.roles));
  if (some && group.switch) figures.push(...switchFigures(group));
  if (some) figures.push(lagBars(group), capacities(group));
  if (group.lines) figures.push(lagLines(group));
  if (group.times) figures.push(inTable("times", group.times));
  if (group.seats) figures.push(inTable("seats", group.seats));
  if (planned) figures.push(tradeOff(group), crossRack(group));
  if (past.length > 1 && group.history.rows.length) figures.push(handOver(group));
  if (past.length) figures.push(inTimeline(group), timeline(group));
  if (group.history.rows.length) figures.push(heatMap(group));
  const drawn = figures.filter(Boolean), narrow = drawn.filter((f) => !f.classList.contains("wide"));
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
    group.lag_in_time ? element("p", { class: "lag-in-time" }, group.lag_in_time) : "",
    some ? "" : element("p", {}, nothing),
    some && (group.kind === "classic" || group.kind === "consumer") && group.group ? element("p", { class: "note" }, "What a rolling restart would do to it, before it happens: ", element("code", {}, `apportion what-if … --group '${group.group.replaceAll("'", "'\\''")}' --rolling -o html > rollout.html`)) : "",
    box);
  box.append(...drawn);
  for (const f of drawn) f.refresh?.();
}

(async () => {
  const data = JSON.parse(await unpacked($("data"))), started = performance.now();
  for (const group of data.groups) if (group.history) { group.replays = rowsOf(group.replays); group.history.rebalances = rowsOf(group.history.rebalances); group.now.owner ??= group.owner; }
  $("title").textContent = visible(data.title);
  $("source").textContent = [visible(data.source), data.at && `page made ${data.at.slice(0, 16).replace("T", " ")} UTC`].filter(Boolean).join(" · ");
  $("theme").addEventListener("click", () => {
    const root = document.documentElement.dataset, dark = root.theme ? root.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.theme = dark ? "light" : "dark";
  });
  let current = null, drawn = null;
  const list = cluster(data), live = data.live ? { number: data.live.number } : null;
  const asked = () => { try { return location.hash.startsWith("#group=") ? decodeURIComponent(location.hash.slice(7)) : null; } catch { return null; } };
  const first = () => { const rows = data.groups.map(rowFor); return data.groups[rows.indexOf([...rows].sort((a, b) => (b.members > 0) - (a.members > 0) || (b.lag ?? -1) - (a.lag ?? -1))[0])]; };
  const notes = (sentences) => $("notes").replaceChildren(...sentences.map((sentence) => element("li", {}, sentence)));
  const clock = (at) => at ? at.slice(0, 19).replace("T", " ") + " UTC" : "";
  const status = (text) => { $("source").textContent = text; };
  const choose = () => {
    const name = asked(), group = data.groups.find((g) => g.group === name) ?? (current !== null ? null : first());
    if (!group || group.group === current) return;
    current = group.group;
    list.mark(current);
    if (live) { drawn = null; $("group").replaceChildren(element("h2", { id: "name", tabindex: "-1" }, current || "(no name)")); follow(current); } else drawGroup(group);
    if (name !== null) $("name").focus();
  };
  const single = () => { if (data.groups.length < 2) document.documentElement.dataset.single = ""; else delete document.documentElement.dataset.single; };
  const waits = () => {
    $("group").textContent = !data.live ? "There are no consumer groups: nobody has joined one or committed yet, or whoever asked may not see them."
      : !data.at ? "This page waits for the first answer of the cluster. It comes by itself; above stands why, if it takes long."
      : "The cluster answers, and has no consumer group yet. This page waits for one: it shows a group as soon as somebody joins or commits. If there are groups already, this server's user may not see them (ACL Describe).";
  };
  const onRound = (round) => {
    data.at = round.at;
    const byName = new Map(round.whole ? [] : data.groups.map((group) => [group.group, group]));
    for (const group of round.groups) byName.set(group.group, { ...byName.get(group.group), ...group });
    for (const name of round.gone) byName.delete(name);
    data.groups = [...byName.values()].sort((a, b) => (a.group < b.group ? -1 : 1));
    list.update(data.groups); overview(data.groups); notes(round.notes); single();
    status(`live, as of ${clock(round.at) || "no round yet"}`);
    if (!data.groups.length) { waits(); current = null; return; }
    if (current === null || (asked() !== null && asked() !== current)) choose(); // the group that a link names may come later
  };
  const onGroup = (group) => {
    if (group.group !== current) return;
    if (drawn) keepingPlace($("group"), () => drawGroup(group)); else { const on = document.activeElement === $("name"); drawGroup(group); if (on) $("name").focus(); }
    drawn = group;
    document.documentElement.dataset.groupDrawn = group.group;
  };
  const follow = live ? listen(live, onRound, onGroup, () => status("The server does not answer; this page shows its last answer.")) : () => {};
  overview(data.groups); switches(data);
  addEventListener("hashchange", choose);
  if (live) { notes(data.live.notes); status(data.at ? `live, as of ${clock(data.at)}` : "live, waiting for the first round"); }
  if (data.groups.length) choose(); else waits();
  if (live && current === null) follow(null);
  single();
  document.documentElement.dataset.drawnMs = (performance.now() - started).toFixed(0);
})();
