// A group's history on an axis of time: who held each partition, each rebalance with its cause, and what stood still.
const MOST_LANES = 40;
const ZOOMS = [1, 4, 16, 64, 256, 1024, 4096];
// Milliseconds as a person says them.
const lasted = (ms) => ms === null || ms === undefined ? "?" : ms < 1000 ? `${number(ms)} ms` : ms < 120000 ? `${Number((ms / 1000).toFixed(1))} s` : `${number(Math.round(ms / 60000))} min`;
// "3.0 s", "0.2 to 4.1 s", or the one bound that is known.
function stoodFor([, least, most]) {
  if (least === null && most === null) return "for a time that no record tells";
  if (most === null) return `at least ${lasted(least)}`;
  return least === null ? `at most ${lasted(most)}` : `${lasted(least)} to ${lasted(most)}`;
}

function inTimeline(group) {
  const { rebalances, rows, owners, labels } = group.history;
  if (!rows.length || !rebalances.some((r) => r.at_ms) || rebalances.some((r, g) => r.at_ms === null || r.at_ms === undefined || g && r.at_ms < rebalances[g - 1].at_ms)) return null;
  const started = (r) => r.at_ms - (r.duration_ms ?? 0), first = started(rebalances[0]), end = rebalances.at(-1).at_ms;
  const span = Math.max(1000, end - first) * 1.04;
  // What moved or stood still most tells most; the others are in the numbers.
  const lanes = rows.map((_, p) => p).slice(0, MOST_LANES);
  let zoom = 0, middle = first + span / 2;
  // Eager: whoever had something gave it up. Else a partition stands still where nobody has it between two rounds.
  const stops = (p, g) => g > 0 && owners[p][g] !== NOBODY && owners[p][g - 1] !== NOBODY && rebalances[g].eager;
  const range = () => {
    const wide = span / ZOOMS[zoom], from = clamp(middle - wide / 2, first - span * .02, first - span * .02 + span * 1.02 - wide);
    return [from, from + wide];
  };
  const clock = (ms, fine) => new Date(ms).toISOString().slice(11, fine ? 23 : 19);

  function axis(picture, [from, to], X, width, y) {
    const steps = [.1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].map((s) => s * 1000);
    const step = steps.find((s) => (to - from) / s <= Math.max(2, width / 110)) ?? (to - from) / 6;
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
      picture.append(svg("line", { x1: X(t), x2: X(t), y1: 16, y2: y, stroke: "var(--grid)" }));
      picture.append(words(X(t), 12, clock(t, step < 1000), { "text-anchor": "middle", class: "soft small" }));
    }
  }
  function draw(width) {
    const [from, to] = range(), left = clamp(Math.max(...lanes.map((p) => places(rows[p])), places("stood still")) + 8, 60, width * .26), right = 8;
    const X = (t) => left + (t - from) / (to - from) * (width - left - right), tall = lanes.length > 24 ? 9 : 15, top = 78, bottom = top + lanes.length * tall;
    const picture = canvas(width, bottom + 6, "Owner of each partition in time; a gap with a dark edge is a partition that stood still; the table below has causes and times");
    axis(picture, [from, to], X, width - left, bottom);
    const most = Math.max(1, ...rebalances.map((r) => r.still?.[0] ?? 0));
    picture.append(words(left - 8, 34, "cause", { "text-anchor": "end", class: "soft small" }), words(left - 8, 66, "stood still", { "text-anchor": "end", class: "soft small" }));
    lanes.forEach((p, i) => {
      const y = top + i * tall;
      if (tall > 9 || i % 2 === 0) picture.append(hint(words(left - 8, y + tall * .75, short(rows[p], Math.floor((left - 8) / LETTER)), { "text-anchor": "end", class: "tiny" }), rows[p]));
      // Runs of one owner that nothing stopped.
      let g = 0;
      while (g < rebalances.length) {
        let last = g;
        while (last + 1 < rebalances.length && owners[p][last + 1] === owners[p][g] && !stops(p, last + 1)) last += 1;
        const m = owners[p][g], begin = rebalances[g].at_ms, over = last + 1 < rebalances.length ? (stops(p, last + 1) ? started(rebalances[last + 1]) : rebalances[last + 1].at_ms) : end + span * .02;
        if (over >= from && begin <= to) {
          const x = Math.max(left, X(begin)), x2 = Math.min(width - right, X(over)), gap = g && stops(p, g) && x > left ? 1 : 0;
          // Before its first owner and after its last nobody wanted it, for all that records tell: that is no standstill.
          const idle = m === NOBODY, still = idle && g > 0 && owners[p].slice(0, g).some((o) => o !== NOBODY) && owners[p].slice(last + 1).some((o) => o !== NOBODY);
          const box = svg("rect", { x: x + gap, y, width: Math.max(.5, x2 - x - gap), height: tall - 1, fill: still ? "var(--bad)" : colour(m), "fill-opacity": still ? .75 : 1 });
          picture.append(hint(box, `${rows[p]}, ${clock(begin)} to ${clock(over)}: ${still ? "nobody, it stands still" : idle ? "nobody" : labels[m]}`));
          if (m !== NOBODY && tall > 9 && x2 - x > places(letter(m)) + 6) picture.append(words(x + 4, y + tall - 4, letter(m), { class: "tiny over", style: `fill:${inkOn(m)}` }));
        }
        g = last + 1;
      }
    });
    let free = -1e9;
    rebalances.forEach((r, g) => {
      const x = X(r.at_ms), s = X(started(r)), [n, least, longest] = r.still ?? [0, null, null];
      if (x < left || s > width - right) return;
      const says = `generation ${r.generation}, ${clock(r.at_ms, true)} UTC: ${r.cause || "?"}; ${n ? `${count(n, "partition")} stood still, each ${stoodFor([n, least, longest])}` : "nothing is known to have stood still"}`;
      picture.append(svg("line", { x1: x, x2: x, y1: 42, y2: bottom, stroke: "var(--ink)", "stroke-width": r.eager ? 1.4 : .7, "stroke-dasharray": r.eager ? "none" : "2 3", "stroke-opacity": .7 }));
      if (n) {
        const h = Math.max(3, n / most * 22), wide = Math.max(3, x - Math.max(left, s));
        if (longest) { // no record tells where in that time it stood still: around the rebalance
          const pale = Math.max(left, X(started(r) - (longest - (least ?? 0)) / 2)), over = Math.min(width - right, X(r.at_ms + (longest - (least ?? 0)) / 2));
          picture.append(hint(svg("rect", { x: pale, y: 72 - h, width: Math.max(3, over - pale), height: h, fill: "var(--bad)", "fill-opacity": .25 }), says));
        }
        picture.append(hint(svg("rect", { x: x - wide, y: 72 - h, width: wide, height: h, fill: "var(--bad)" }), says));
        if (r.eager && x - s > 2) picture.append(hint(svg("rect", { x: Math.max(left, s), y: top, width: x - Math.max(left, s), height: bottom - top, fill: "var(--bad)", "fill-opacity": .35 }), says));
      }
      const text = short((r.cause || "?") + (n ? `, ${number(n)} still` : ""), 34);
      const at = clamp(x - 2, left, width - places(text));
      if (at > free) { picture.append(hint(words(at, 34, text, { class: "small" }), says)); free = at + places(text) + 8; }
    });
    return picture;
  }
  const turn = (label, change, says) => { const button = element("button", { type: "button", "aria-label": says }, label); button.addEventListener("click", () => { change(); box.refresh(); }); return button; };
  const step = (by) => () => { const [from, to] = range(); middle = clamp((from + to) / 2 + by * (to - from) / 2, first, end); };
  const tools = [
    selection("Look at", [[-1, "the whole history"], ...rebalances.map((r, g) => [g, `generation ${r.generation}: ${short(r.cause || "?", 40)}`])], -1, (g) => {
      if (g < 0) zoom = 0;
      else {
        const r = rebalances[g], wanted = Math.max(2000, 8 * Math.max(r.duration_ms ?? 0, r.still?.[1] ?? 0), 1.5 * (r.still?.[2] ?? 0));
        middle = r.at_ms - (r.duration_ms ?? 0) / 2;
        zoom = ZOOMS.findLastIndex((z) => span / z >= wanted); if (zoom < 0) zoom = 0;
      }
      box.refresh();
    }),
    turn("+", () => { zoom = Math.min(ZOOMS.length - 1, zoom + 1); }, "Zoom in"), turn("−", () => { zoom = Math.max(0, zoom - 1); }, "Zoom out"),
    turn("◂", step(-1), "Earlier"), turn("▸", step(1), "Later"),
  ];
  const total = () => {
    const known = rebalances.filter((r) => r.still?.[0]), long = known.filter((r) => r.still[1] !== null), worst = [...long].sort((a, b) => b.still[1] - a.still[1])[0];
    if (!known.length) return "No partition is known to have stood still.";
    const all = sum(known.map((r) => r.still[0])), eager = rebalances.filter((r) => r.eager).length;
    const how = eager ? `${number(eager)} of ${count(rebalances.length, "rebalance")} stopped everything (eager). ` : `${count(rebalances.length, "rebalance")}; only what changed hands stopped. `;
    return how + `Partitions stopped ${all === 1 ? "once" : number(all) + " times"}` + (worst ? `; the longest time that records prove is ${lasted(worst.still[1])}, at generation ${worst.generation}.` : "; no record tells for how long.");
  };
  const box = figure({
    id: "time", title: "The group in time", wide: true, draw, tools,
    says: () => total() + " A lane is a partition and its colour the member that reads it; red is where nobody read. Pale red: as long as it may have been at most."
      + (rows.length > lanes.length ? ` ${number(lanes.length)} of ${count(rows.length, "partition")} are drawn.` : "") + " Times are UTC.",
    key: () => [...labels.slice(0, 20).map((label, m) => [label, colour(m), letter(m)]), ["stood still", "var(--bad)"], ["nobody", colour(NOBODY)]],
    head: () => ["Generation", "At", "Cause", "Took", "Stood still", "Each at least", "Median at most"],
    rows: () => rebalances.map((r) => [r.generation, r.at, r.cause, lasted(r.duration_ms), r.still?.[0] ?? null, lasted(r.still?.[1]), lasted(r.still?.[2])]),
  });
  return box;
}
