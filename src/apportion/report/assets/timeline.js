// A group's history on an axis of time: who held each partition, each rebalance with its cause, and what stood still.
const MOST_LANES = 40, MOST_AT_ONCE = 24; // lanes drawn; rebalances seen at first
const ZOOMS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1024, 4096];
// Milliseconds as a person says them.
const lasted = (ms) => ms === null || ms === undefined ? "?" : ms < 1000 ? `${number(Math.round(ms))} ms` : ms < 120000 ? `${Number((ms / 1000).toFixed(1))} s` : ms < 7200000 ? `${number(Math.round(ms / 60000))} min` : `${number(Math.round(ms / 3600000))} h`;
// "3.0 s", "0.2 to 4.1 s", or the one bound that is known.
function stoodFor([, least, most]) {
  if (least === null && most === null) return "for an unknown time";
  if (most === null) return `at least ${lasted(least)}`;
  return least === null ? `at most ${lasted(most)}` : least === most ? lasted(least) : `${lasted(least)} to ${lasted(most)}`;
}
// A quiet stretch is shortened to twelve times the longest standstill: two places tell how far along the picture a
// moment is, and how long a stretch between two rebalances was cut.
function shortened(rebalances, started, until) {
  const longest = Math.max(100, ...rebalances.map((r) => Math.max(r.duration_ms ?? 0, r.still?.[1] ?? 0))), most = 12 * longest;
  const times = [started(rebalances[0])], along = [0], cuts = [];
  const to = (t, wide) => { along.push(along.at(-1) + wide); times.push(t); };
  rebalances.forEach((r, g) => {
    const quiet = started(r) - times.at(-1);
    if (quiet > most) { cuts.push([times.at(-1), started(r)]); to(started(r), most); } else if (quiet > 0) to(started(r), quiet);
    if (r.at_ms > times.at(-1)) to(r.at_ms, r.at_ms - times.at(-1));
  });
  if (until - times.at(-1) > most) { cuts.push([times.at(-1), until]); to(until, most); } else if (until > times.at(-1)) to(until, until - times.at(-1));
  return { cuts, whole: along.at(-1), at(t) {
    let low = 0, high = times.length - 1;
    if (t <= times[0]) return t - times[0];
    if (t >= times[high]) return along[high] + Math.min(t - times[high], most);
    while (high - low > 1) { const middle = (low + high) >> 1; if (times[middle] <= t) low = middle; else high = middle; }
    return along[low] + (t - times[low]) / (times[high] - times[low]) * (along[high] - along[low]);
  } };
}

function inTimeline(group) {
  const { rebalances, rows, owners, labels, planned, commits = [], lag = [] } = group.history;
  if (!rows.length || rebalances.length < 2 || rebalances.some((r, g) => r.at_ms === null || r.at_ms === undefined || g && r.at_ms < rebalances[g - 1].at_ms)) return null;
  const started = (r) => r.at_ms - (r.duration_ms ?? 0), until = Math.max(rebalances.at(-1).at_ms, lag.at(-1)?.[0] ?? 0), short_ = shortened(rebalances, started, until);
  const true_ = { cuts: [], whole: until - started(rebalances[0]), at: (t) => t - started(rebalances[0]) };
  let scale = short_.cuts.length ? short_ : true_;
  const span = () => Math.max(1000, scale.whole) * 1.06;
  // What moved or stood still most tells most; the others are in the numbers.
  const lanes = rows.map((_, p) => p).slice(0, MOST_LANES);
  const first = Math.max(0, ZOOMS.findIndex((z) => z >= rebalances.length / MOST_AT_ONCE));
  let zoom = first;
  // A plan is read from its beginning, a past from its end.
  let middle = planned ? 0 : span();
  // Since when a partition stood still before a rebalance; null where it did not. Eager: whoever had it gave it up.
  const stillSince = (p, g) => {
    const r = rebalances[g];
    if (r.stopped) return r.stopped[p] === undefined ? null : r.at_ms - r.stopped[p];
    return g > 0 && owners[p][g] !== NOBODY && owners[p][g - 1] !== NOBODY && r.eager ? started(r) : null;
  };
  const range = () => {
    const wide = span() / ZOOMS[zoom], low = -.03 * span(), from = clamp(middle - wide / 2, low, low + span() - wide);
    return [from, from + wide];
  };
  const clock = (ms, fine) => planned ? `+${Math.floor(ms / 60000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}` : new Date(ms).toISOString().slice(11, fine ? 23 : 19);
  const sentenceOf = (r) => `${planned ? r.cause : `generation ${r.generation}, ${clock(r.at_ms, true)} UTC: ${r.cause || "?"}`}; ${r.still?.[0] ? `${count(r.still[0], "partition")} ${planned ? "will stand" : "stood"} still, each ${stoodFor(r.still)}` : planned ? "nothing stands still" : "nothing is known to have stood still"}`;

  function axis(picture, [from, to], X, right, bottom) {
    let free = 0;
    const tick = (t, text) => {
      const x = X(t);
      picture.append(svg("line", { x1: x, x2: x, y1: 16, y2: bottom, stroke: "var(--grid)" }));
      if (x - places(text) / 2 < free) return;
      const at = Math.min(x, right - places(text) / 2);
      picture.append(words(at, 12, text, { "text-anchor": "middle", class: "soft small" }));
      free = at + places(text) / 2 + 10;
    };
    if (scale.cuts.length) { // no even steps where stretches are cut: the moments themselves
      for (const r of rebalances) { const u = scale.at(r.at_ms); if (u >= from && u <= to) tick(r.at_ms, clock(r.at_ms)); }
      for (const [since, until] of scale.cuts) {
        const x = X(since), wide = X(until) - x, text = lasted(until - since);
        if (wide > 12 && x + wide / 2 > X.left && x + wide / 2 < right) picture.append(hint(svg("path", { d: `M${x + wide / 2 - 4},${bottom} l3,-9 m2,9 l3,-9`, stroke: "var(--soft)", fill: "none" }), `${text}, shortened`));
        if (wide > places(text) + 8 && x + wide / 2 > X.left) picture.append(hint(words(x + wide / 2, bottom + 13, text, { "text-anchor": "middle", class: "soft tiny" }), `${text}, shortened`));
      }
      return;
    }
    const steps = [.1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].map((s) => s * 1000), begin = started(rebalances[0]);
    const step = steps.find((s) => (to - from) / s <= Math.max(2, right / 110)) ?? (to - from) / 6;
    for (let t = Math.ceil((from + begin) / step) * step; t <= to + begin; t += step) if (t >= begin || !planned) tick(t, clock(t, step < 1000));
  }
  function draw(visibleWidth) {
    const [from, to] = range(), seen = rebalances.filter((r) => { const u = scale.at(r.at_ms); return u >= from && u <= to; });
    const left = clamp(Math.max(...lanes.map((p) => places(rows[p])), places("was paused")) + 8, 60, visibleWidth * .26), right = 8;
    const width = Math.max(visibleWidth, Math.min(2400, left + Math.min(seen.length, MOST_AT_ONCE) * 64));
    const X = (t) => left + (scale.at(t) - from) / (to - from) * (width - left - right);
    X.left = left;
    const tall = lanes.length > 24 ? 9 : 15, strip = lag.length > 1 ? 46 : 0, top = 78, under = top + lanes.length * tall, bottom = under + strip;
    const picture = canvas(width, bottom + 18, `Owner of each partition in time${planned ? ", as planned" : ""}; red is a partition that ${planned ? "will be" : "was"} paused; the table below has causes and times`);
    axis(picture, [from, to], X, width - right, bottom);
    const most = Math.max(1, ...rebalances.map((r) => r.still?.[0] ?? 0));
    picture.append(words(left - 8, 34, "cause", { "text-anchor": "end", class: "soft small" }), words(left - 8, 66, planned ? "paused" : "was paused", { "text-anchor": "end", class: "soft small" }));
    const box = (since, until, y, height, fill, tooltip, opacity = 1) => {
      const x = Math.max(left, X(since)), x2 = Math.min(width - right, X(until));
      if (x2 < left || x > width - right || x2 <= x) return null;
      const rect = hint(svg("rect", { x, y, width: Math.max(.5, x2 - x), height, fill, "fill-opacity": opacity }), tooltip);
      picture.append(rect);
      return [x, x2];
    };
    lanes.forEach((p, i) => {
      const y = top + i * tall;
      if (tall > 9 || i % 2 === 0) picture.append(hint(words(left - 8, y + tall * .75, fit(rows[p], left - 8), { "text-anchor": "end", class: "tiny" }), rows[p]));
      // Runs of one owner that nothing stopped.
      let g = 0;
      while (g < rebalances.length) {
        let last = g;
        while (last + 1 < rebalances.length && owners[p][last + 1] === owners[p][g] && stillSince(p, last + 1) === null) last += 1;
        const m = owners[p][g], next = rebalances[last + 1], since = next ? stillSince(p, last + 1) : null;
        const begin = rebalances[g].at_ms, over = next ? since === null ? next.at_ms : Math.max(begin, since) : until + span();
        // Before its first owner and after its last nobody wanted it, for all that records tell: that is no standstill.
        const still = m === NOBODY && owners[p].slice(0, g).some((o) => o !== NOBODY) && owners[p].slice(last + 1).some((o) => o !== NOBODY);
        const who = still ? "no member, it is paused" : m === NOBODY ? "nobody" : labels[m];
        const drawn = box(begin, over, y, tall - 1, still ? "var(--bad)" : colour(m), `${rows[p]}, ${clock(begin)} to ${next ? clock(over) : "the end"}: ${who}`, still ? .75 : 1);
        if (drawn && m !== NOBODY && tall > 9 && drawn[1] - drawn[0] > places(letter(m)) + 6) picture.append(words(drawn[0] + 4, y + tall - 4, letter(m), { class: "tiny over", style: `fill:${inkOn(m)}` }));
        if (since !== null) box(since, next.at_ms, y, tall - 1, "var(--bad)", `${rows[p]}: ${sentenceOf(next)}`, .75);
        g = last + 1;
      }
    });
    for (const [p, n, ...after] of commits) {
      const [first, last] = after.map((ms) => rebalances[0].at_ms + ms), y = top + p * tall + tall - 4, x = X(first), x2 = X(last);
      if (p < lanes.length && x2 >= left && x <= width - right) picture.append(hint(svg("line", { x1: Math.max(left, x) - 1, x2: Math.min(width - right, x2) + 1, y1: y, y2: y, stroke: "var(--ink)", "stroke-width": 1.6, "stroke-opacity": .75 }), `${rows[p]}: ${count(n, "commit")}, ${clock(first, true)} to ${clock(last, true)}`));
    }
    if (strip) {
      const highest = Math.max(1, ...lag.map(([, n]) => n)), Y = (n) => bottom - 4 - n / highest * (strip - 12), shown = lag.filter(([t]) => X(t) >= left && X(t) <= width - right);
      picture.append(words(left - 8, bottom - strip / 2 + 4, "lag", { "text-anchor": "end", class: "soft small" }), words(left + 2, under + 12, number(highest), { class: "soft tiny" }));
      picture.append(svg("polyline", { points: shown.map(([t, n]) => `${X(t)},${Y(n)}`).join(" "), fill: "none", stroke: "var(--ink)", "stroke-width": 1.4 }));
      for (const [t, n] of shown) picture.append(hint(svg("circle", { cx: X(t), cy: Y(n), r: 2.2, fill: "var(--ink)" }), `${clock(t)}: ${number(n)} messages behind`));
    }
    let free = -1e9;
    const inSight = seen.filter((r) => X(r.at_ms) >= left), numbers = []; // these lie above the next one's red
    inSight.forEach((r, i) => {
      const x = X(r.at_ms), s = X(started(r)), [n, least, longest, silent] = r.still ?? [0, null, null, null], tooltip = sentenceOf(r);
      picture.append(svg("line", { x1: x, x2: x, y1: 42, y2: under, stroke: "var(--ink)", "stroke-width": r.eager ? 1.4 : .7, "stroke-dasharray": r.eager ? "none" : "2 3", "stroke-opacity": .7 }));
      if (n) {
        const h = Math.max(3, n / most * 18), since = r.at_ms - (planned ? longest : Math.max(r.duration_ms ?? 0, least ?? 0)), wide = Math.max(3, x - Math.max(left, X(since)));
        // No record tells where between two commits it stood still.
        if (silent) box(silent, silent + longest, 72 - h, h, "var(--bad)", tooltip, .25);
        picture.append(hint(svg("rect", { x: x - wide, y: 72 - h, width: wide, height: h, fill: "var(--bad)" }), tooltip));
        numbers.push(hint(words(x + 3, 72 - h / 2 + 3, number(n), { class: "tiny halo" }), tooltip));
      }
      const after = inSight[i + 1], room = Math.max(places("a member"), (after ? X(after.at_ms) : width) - Math.max(x, free) - 6), cause = planned ? r.cause.replace(/^rolling [^:]*: /, "") : r.cause || "?";
      // Cut in its middle a step would not tell who; its last word tells what.
      const text = planned && places(cause) > room ? cause.replace(/^.* (gone|back)\b/, "$1") : fit(cause, room);
      const at = clamp(x - 2, left, width - places(text));
      if (at >= free) { picture.append(hint(words(at, 34, text, { class: "small" }), tooltip)); free = at + places(text) + 6; }
    });
    picture.append(...numbers);
    return picture;
  }
  const turn = (label, change, spoken) => { const button = element("button", { type: "button", "aria-label": spoken }, label); button.addEventListener("click", () => { change(); box.refresh(); }); return button; };
  const step = (by) => () => { const [from, to] = range(); middle = (from + to) / 2 + by * (to - from) / 2; };
  const tools = [
    selection("Look at", [...(first ? [[-2, planned ? "the first steps" : "the last rebalances"]] : []), [-1, planned ? "the whole rollout" : "the whole history"], ...rebalances.map((r, g) => [g, `${planned ? "" : `generation ${r.generation}: `}${short(r.cause || "?", 40)}`])], first ? -2 : -1, (g) => {
      if (g < 0) { zoom = g === -1 ? 0 : first; middle = planned ? 0 : span(); }
      else {
        const r = rebalances[g], wanted = Math.max(2000, 8 * Math.max(r.duration_ms ?? 0, r.still?.[1] ?? 0), 1.5 * (r.still?.[2] ?? 0));
        middle = scale.at(r.at_ms - (r.duration_ms ?? 0) / 2);
        zoom = Math.max(0, ZOOMS.findLastIndex((z) => span() / z >= wanted));
      }
      box.refresh();
    }),
    ...(short_.cuts.length ? [selection("Quiet stretches", [[1, "shortened"], [0, "to scale"]], 1, (short) => {
      const [from, to] = range(), here = ((from + to) / 2) / span();
      scale = short ? short_ : true_; middle = here * span(); box.refresh();
    })] : []),
    element("span", { class: "turns" }, turn("+", () => { const [from, to] = range(); middle = (from + to) / 2; zoom = Math.min(ZOOMS.length - 1, zoom + 1); }, "Zoom in"), turn("−", () => { const [from, to] = range(); middle = (from + to) / 2; zoom = Math.max(0, zoom - 1); }, "Zoom out"),
    turn("◂", step(-1), "Earlier"), turn("▸", step(1), "Later")),
  ];
  const total = () => {
    const known = rebalances.filter((r) => r.still?.[0]), long = known.filter((r) => r.still[1] !== null), worst = [...long].sort((a, b) => b.still[1] - a.still[1])[0];
    if (planned) return "What the rollout would bring, from its beginning.";
    if (!known.length) return "No partition is known to have been paused.";
    const all = sum(known.map((r) => r.still[0])), eager = rebalances.filter((r) => r.eager).length;
    const how = eager ? `${number(eager)} of ${count(rebalances.length, "rebalance")} stopped everything (eager). ` : `${count(rebalances.length, "rebalance")}; only what changed hands stopped. `;
    return how + `Partitions stopped ${all === 1 ? "once" : number(all) + " times"}` + (worst ? `; the longest time that records prove is ${lasted(worst.still[1])}, at generation ${worst.generation}.` : "; no record shows for how long.");
  };
  const box = figure({
    id: "time", title: planned ? "The rollout in time" : "The group in time", wide: true, draw, tools,
    finding: () => total() + (rows.length + group.history.left_out > lanes.length ? ` ${number(lanes.length)} of ${count(rows.length + group.history.left_out, "partition")} are drawn.` : ""),
    sentences: () => `A lane is a partition and its colour the member that reads it; red means that no member ${planned ? "reads" : "read"} it.`
      + (planned ? "" : " Pale red: the longest that it may have been.") + (commits.length ? " A thin line in a lane: from first commit to last." : "")
      + (scale.cuts.length ? " // marks a shortened quiet stretch." : "") + (planned ? "" : " Times are UTC."),
    key: () => [...labels.slice(0, 20).map((label, m) => [label, colour(m), letter(m)]), ...(labels.length > 20 ? [[`${number(labels.length - 20)} more`, "none"]] : []), [planned ? "paused" : "was paused", "var(--bad)"], ["nobody", colour(NOBODY)]],
    head: () => ["Generation", planned ? "After" : "At", "Cause", "Took", planned ? "Paused" : "Were paused", planned ? "At least" : "Each at least", planned ? "At most" : "Median at most", "Commits until the next", ...(lag.length > 1 ? ["Lag then"] : [])],
    rows: () => rebalances.map((r) => [r.generation, planned ? clock(r.at_ms) : r.at, r.cause, lasted(r.duration_ms), r.still?.[0] ?? null, lasted(r.still?.[1]), lasted(r.still?.[2]), r.commits ?? null, ...(lag.length > 1 ? [lag.findLast(([t]) => t <= r.at_ms)?.[1] ?? null] : [])]),
  });
  return box;
}
