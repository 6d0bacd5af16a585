// A group as it stands: what each strategy would do now, lag per member, moves against imbalance, racks.
const lagOf = (group) => group.lag_known ? sum(group.lag) : null;
const weighted = (group) => group.lag_known && sum(group.lag) > 0;
// Plans that give out as many partitions as any: others look light by leaving work undone.
const complete = (group) => { const most = Math.max(...group.plans.map((plan) => plan.assigned)); return group.plans.filter((plan) => plan.assigned === most); };

const ratio = (fraction) => { const [above, below = 1] = fraction.split("/"); return above / below; };

function strategies(group) {
  const whole = complete(group), racks = group.plans.some((plan) => plan.rack_misses !== null), lag = weighted(group);
  const wanted = Math.max(group.now.assigned, ...group.plans.map((plan) => plan.assigned));
  const cost = (p) => p.measures.load_cost ?? null; // a fraction in text: members have capacities
  const of = { load: (p) => cost(p) === null ? p.measures.load_squares : ratio(cost(p)), moves: (p) => p.measures.moves, lag: (p) => p.measures.lag_max ?? null, racks: (p) => p.rack_misses };
  const least = Object.fromEntries(Object.entries(of).map(([name, value]) => [name, Math.min(...whole.map((p) => value(p) ?? Infinity))]));
  const marked = (plan, name, text) => ({ text, best: whole.includes(plan) && of[name](plan) === least[name] });
  const columns = [
    ["Strategy", (p) => p.assignor],
    ["Partitions each", (p) => marked(p, "load", p.measures.load_min === p.measures.load_max ? number(p.measures.load_min) : `${number(p.measures.load_min)} to ${number(p.measures.load_max)}`)],
    group.capacity ? ["Load² / capacity", (p) => marked(p, "load", Number(ratio(cost(p)).toFixed(2)))] : null,
    ["Moved", (p) => marked(p, "moves", p.measures.moves)],
    ["Kept", (p) => p.measures.kept],
    group.plans.some((p) => p.assigned < wanted) ? ["Without owner", (p) => wanted - p.assigned] : null,
    lag ? ["Heaviest lag", (p) => marked(p, "lag", p.measures.lag_max ?? null)] : null,
    racks ? ["Across racks", (p) => marked(p, "racks", p.rack_misses)] : null,
    ["Proof", (p) => Object.entries(p.proof).map(([goal, how]) => `${goal} ${how}`).join(", ") || "–"],
  ].filter(Boolean);
  const rows = [group.now, ...group.plans].map((plan) => columns.map(([, value]) => value(plan)));
  const bounds = lag ? whole.map((p) => p.measures.lag_bound).filter((n) => n !== undefined) : [];
  const strategyTable = table(columns.map(([name]) => name), rows, "Strategies");
  const same = group.plans.map((plan) => plan.owner.every((m, p) => m === group.now.owner[p])), alike = group.plans.filter((_, i) => same[i]);
  same.forEach((is, i) => strategyTable.querySelector("tbody").rows[i + 1].classList.toggle("same", is));
  return element("figure", { class: "wide", id: "picture-strategies", "aria-labelledby": "title-strategies" },
    element("figcaption", {}, element("h3", { id: "title-strategies" }, "What each strategy would do now"),
      ...group.advice.map((sentence) => element("p", { class: "advice" }, sentence)),
      bounds.length ? element("p", {}, `No plan can bring the heaviest member below ${count(Math.min(...bounds), "message")}.`) : null),
    strategyTable,
    alike.length ? element("p", { class: "note phone" }, `As now: ${alike.map((plan) => plan.assignor).join(", ")}.`) : null,
    element("details", {}, element("summary", {}, "How to read this"),
      element("p", {}, "A star marks the best of a column. “Optimal” means proved: a plan that is better on that goal must be worse on one before it.")));
}

const MOST_MEMBERS = 60;
function lagBars(group) {
  const lag = weighted(group), weight = lag ? (p) => group.lag[p] : () => 1;
  const whole = complete(group), heaviest = (plan) => Math.max(0, ...perMember(group, plan.owner, weight));
  let chosen = group.plans.indexOf([...whole].sort((a, b) => heaviest(a) - heaviest(b) || a.measures.moves - b.measures.moves)[0]);
  const nowHeld = perMember(group, group.now.owner, weight), many = group.members.length > MOST_MEMBERS;
  const members = group.members.map((_, m) => m);
  if (many) members.sort((a, b) => nowHeld[b] - nowHeld[a] || a - b).length = MOST_MEMBERS;
  const sides = () => [["now", group.now], ...(chosen >= 0 ? [["plan", group.plans[chosen]]] : [])];
  const bound = () => lag && chosen >= 0 ? group.plans[chosen].measures.lag_bound ?? null : null;

  function draw(width) {
    const above = width < 460, longest = Math.max(...members.map((m) => places(group.members[m])));
    const label = above ? 0 : clamp(longest + 8, 60, width * .36), left = label + 32, bar = members.length > 8 ? 13 : 20;
    const step = (above ? 18 : 0) + sides().length * (bar + 3) + 11;
    const most = Math.max(1, bound() ?? 0, ...sides().map(([, plan]) => heaviest(plan)));
    const scale = (width - left - places(number(most)) - 12) / most, top = bound() ? 22 : 4;
    const picture = canvas(width, top + members.length * step, `${lag ? "Lag" : "Partitions"} of each member, now and as planned by ${group.plans[chosen]?.assignor ?? "nobody"}`);
    if (bound()) {
      const x = left + bound() * scale, text = `no plan gets the heaviest member below ${number(bound())}`, half = places(text) / 2;
      picture.append(svg("line", { x1: x, x2: x, y1: 16, y2: top + members.length * step, stroke: "var(--bad)", "stroke-width": 1.5, "stroke-dasharray": "5 4" }));
      picture.append(words(clamp(x, half, width - half), 11, text, { "text-anchor": "middle", class: "bound" }));
    }
    const mine = sides().map(([, plan]) => { const held = group.members.map(() => []); plan.owner.forEach((m, p) => { if (m !== NOBODY) held[m].push(p); }); return held; });
    members.forEach((m, i) => {
      const y0 = top + i * step + (above ? 16 : 0), name = fit(group.members[m], above ? width : label - 8);
      picture.append(hint(above ? words(0, y0 - 4, name) : words(label - 8, y0 + sides().length * (bar + 3) / 2 + 2, name, { "text-anchor": "end" }), group.members[m]));
      sides().forEach(([side, plan], s) => {
        const y = y0 + s * (bar + 3), parts = mine[s][m].sort((a, b) => weight(b) - weight(a)), total = sum(parts.map(weight));
        const large = parts.filter((p, n) => n < 40 || weight(p) * scale > 2), rest = sum(parts.slice(large.length).map(weight));
        let x = left;
        const piece = (amount, text, look) => {
          if (amount > 0) picture.append(hint(svg("rect", { x, y, width: Math.max(amount * scale - .8, .6), height: bar, fill: s ? colour(1) : colour(0), ...look }), text));
          x += amount * scale;
        };
        for (const p of large) piece(weight(p), `${group.topics[group.topic_of[p]]}-${group.number[p]}: ${number(group.lag[p])} messages, ${s ? plan.assignor : side}`, {});
        if (rest) piece(rest, `${count(parts.length - large.length, "more partition")}`, { "fill-opacity": .55 });
        picture.append(words(left - 5, y + bar / 2 + 4, side, { "text-anchor": "end", class: "soft small" }));
        picture.append(words(x + 5, y + bar / 2 + 4, number(total), { class: "halo" }));
      });
    });
    return picture;
  }
  const meaning = lag ? "What each member still has to read. Each piece of a bar is a partition." : "How many partitions each member holds. No lag is known, or none is left.";
  const box = figure({
    id: "lag", title: lag ? "Lag per member" : "Partitions per member", draw,
    finding: () => many ? `Of ${number(group.members.length)} members the ${MOST_MEMBERS} with most are drawn.` : "",
    sentences: () => meaning,
    key: () => [["now", colour(0)], ...(chosen >= 0 ? [[`as planned by ${group.plans[chosen].assignor}`, colour(1)]] : [])],
    tools: group.plans.length ? [selection("Planned by", group.plans.map((plan, i) => [i, plan.assignor]), chosen, (i) => { chosen = i; box.refresh(); })] : [],
    head: () => ["Member", "now", ...group.plans.map((plan) => plan.assignor)],
    rows: () => { const held = [group.now, ...group.plans].map((plan) => perMember(group, plan.owner, weight)); return group.members.map((label, m) => [label, ...held.map((h) => h[m])]); },
  });
  return box;
}

// Points that fall together share one label; labels take the first of four sides that is free.
function spots(points, X, Y) {
  const merged = [];
  for (const p of points) {
    const x = X(p.x), y = Y(p.y), near = merged.find((spot) => Math.hypot(spot.x - x, spot.y - y) < 7);
    if (near) near.points.push(p); else merged.push({ x, y, points: [p] });
  }
  return merged;
}
function lines(names, most) {
  const rows = [""];
  for (const [i, name] of names.entries()) {
    const part = name + (i < names.length - 1 ? ", " : "");
    if (rows.at(-1) && (rows.at(-1) + part).length > most) rows.push(part); else rows[rows.length - 1] += part;
  }
  return rows.map((line) => line.trimEnd());
}
function labelled(picture, spot, taken, width, bottom) {
  const text = lines(spot.points.map((p) => p.name), 30), w = Math.max(...text.map(places)), h = text.length * 14;
  const free = ([x, y]) => x >= 0 && x + w <= width && y >= 16 && y + h <= bottom && !taken.some((t) => x < t.x + t.w && t.x < x + w && y < t.y + t.h && t.y < y + h);
  // The dashed line leaves a point of it to the right, so its label goes above first.
  const first = spot.points.some((p) => p.best) ? [[.5, -.8], [1, 0]] : [[1, 0], [.5, -.8]];
  const sides = [...first, [-1, 0], [.5, .8], [-.5, -.8], [-.5, .8]];
  const tried = [11, 28, 46, 66, 90, 120].flatMap((d) => sides.map(([dx, dy]) => [spot.x + dx * d - (dx < 0 ? w : 0), spot.y + dy * (d + h / 2) - h / 2]));
  const corner = tried.find(free) ?? [clamp(spot.x + 11, 0, width - w), clamp(spot.y + 9, 0, bottom - h)], [x, y] = corner;
  taken.push({ x, y, w, h });
  if (tried.indexOf(corner) >= sides.length) {
    picture.append(svg("line", { x1: spot.x, y1: spot.y, x2: clamp(spot.x, x, x + w), y2: clamp(spot.y, y, y + h), stroke: "var(--soft)", "stroke-width": .8 }));
  }
  text.forEach((line, i) => picture.append(words(x, y + 11 + i * 14, line, { class: "halo" })));
}
function tradeOff(group) {
  const lag = weighted(group), weight = lag ? (p) => group.lag[p] : () => 1, whole = complete(group);
  const points = [group.now, ...group.plans].map((plan, i) => {
    const held = perMember(group, plan.owner, weight);
    return { name: plan.assignor, now: i === 0, judged: whole.includes(plan), x: plan.measures.moves, y: Math.max(...held) - Math.min(...held), squares: plan.measures.load_squares };
  });
  const judged = points.filter((p) => p.judged);
  const best = judged.filter((p) => !judged.some((q) => q.x <= p.x && q.y <= p.y && (q.x < p.x || q.y < p.y))).sort((a, b) => a.x - b.x || a.y - b.y);
  for (const p of best) p.best = true;

  function draw(width) {
    const tall = 330, mostX = Math.max(1, ...points.map((p) => p.x)), mostY = Math.max(1, ...points.map((p) => p.y));
    const left = places(number(mostY)) + 14, right = 24, bottom = tall - 44;
    const X = (v) => left + 12 + v / mostX * (width - left - right - 24), Y = (v) => 36 + (1 - v / mostY) * (bottom - 48);
    const picture = canvas(width, tall, "Strategies as points: partitions moved to the right, imbalance upwards; the table below has the numbers");
    picture.append(words(0, 12, (width < 460 ? "" : "imbalance: ") + `${lag ? "messages" : "partitions"} between heaviest and lightest member`, { class: "soft" }));
    for (const n of ticks(mostY)) {
      picture.append(svg("line", { x1: left, x2: width - right, y1: Y(n), y2: Y(n), stroke: "var(--grid)" }));
      picture.append(words(left - 8, Y(n) + 4, number(n), { "text-anchor": "end", class: "soft" }));
    }
    for (const n of ticks(mostX)) picture.append(words(X(n), bottom + 18, number(n), { "text-anchor": "middle", class: "soft" }));
    picture.append(words((left + width - right) / 2, tall - 6, "partitions moved", { "text-anchor": "middle", class: "soft" }));
    const steps = best.map((p, i) => i ? `H${X(p.x)} V${Y(p.y)}` : `M${X(p.x)} ${Y(p.y)}`).join(" ");
    if (best.length > 1) picture.append(svg("path", { d: steps, fill: "none", stroke: "var(--accent)", "stroke-dasharray": "4 4" }));
    const merged = spots([...points].sort((a, b) => best.includes(b) - best.includes(a)), X, Y);
    const stair = best.slice(1).flatMap((p, i) => [{ x: X(best[i].x), y: Y(best[i].y) - 3, w: X(p.x) - X(best[i].x), h: 6 }, { x: X(p.x) - 3, y: Y(best[i].y), w: 6, h: Y(p.y) - Y(best[i].y) }]);
    const taken = [...merged.map((spot) => ({ x: spot.x - 6, y: spot.y - 6, w: 12, h: 12 })), ...stair];
    for (const spot of merged) {
      const good = spot.points.some((p) => best.includes(p)), now = spot.points.some((p) => p.now);
      if (now) picture.append(svg("circle", { cx: spot.x, cy: spot.y, r: 9, fill: "none", stroke: "var(--ink)" }));
      const look = good ? { fill: "var(--accent)" } : { fill: "var(--panel)", stroke: "var(--soft)", "stroke-width": 2 };
      picture.append(hint(svg("circle", { cx: spot.x, cy: spot.y, r: 5.5, ...look }), spot.points.map((p) => `${p.name}: ${number(p.x)} moved, ${number(p.y)} between heaviest and lightest`).join("\n")));
    }
    for (const spot of merged) labelled(picture, spot, taken, width, bottom);
    return picture;
  }
  return figure({
    id: "tradeoff", title: "Moves against imbalance", draw,
    sentences: () => "Further left means fewer moves, further down a better balance. No strategy beats those on the dashed line on both. The ring is the group as it is now."
      + (points.some((p) => !p.now && !p.judged) ? " Strategies that leave partitions without an owner are shown, but they are not on the line." : ""),
    head: () => ["Strategy", "Moved", "Imbalance", "Sum of squared loads", "On the line"],
    rows: () => points.map((p) => [p.name, p.x, p.y, p.squares, best.includes(p) ? "yes" : "no"]),
  });
}

// Bars to the right, one a row: [label, amount, what stands behind the bar].
// A bar that is hollow stands for something else than the others, so that its length is not to be compared.
function rowsOfBars(width, rows, label, paint, hollow = () => false) {
  const names = clamp(Math.max(...rows.map(([name]) => places(name))) + 10, 60, width * .42), behind = Math.max(...rows.map(([, , text]) => places(text))) + 10;
  const most = Math.max(...rows.map(([, amount]) => amount)), scale = most ? Math.max(20, width - names - behind) / most : 0;
  const picture = canvas(width, rows.length * 24 + 4, label);
  rows.forEach(([name, amount, text], i) => {
    const y = 4 + i * 24;
    picture.append(hint(words(names - 8, y + 13, fit(name, names - 8), { "text-anchor": "end" }), name));
    const look = hollow(i) ? { fill: "none", stroke: "var(--then)", "stroke-dasharray": "3 3" } : { fill: paint(i) };
    picture.append(svg("rect", { x: names, y, width: Math.max(1, amount * scale), height: 16, ...look }));
    picture.append(words(names + amount * scale + 6, y + 13, text, { class: "soft" }));
  });
  return picture;
}
// Members of different capacity: what counts as balanced is not the load but the load for each unit of capacity.
function capacities(group) {
  if (!group.capacity) return null;
  const plans = [group.now, ...group.plans], held = plans.map((plan) => perMember(group, plan.owner, () => 1));
  let chosen = plans.length > 1 ? 1 : 0;
  const each = (i, m) => Number((held[i][m] / group.capacity[m]).toFixed(2));
  const members = () => group.members.map((_, m) => m).sort((a, b) => each(chosen, b) - each(chosen, a) || a - b).slice(0, MOST_MEMBERS);
  const box = figure({
    id: "capacities", title: "Load for each unit of capacity",
    finding: () => group.members.length > MOST_MEMBERS ? `Of ${number(group.members.length)} members the ${MOST_MEMBERS} highest are drawn.` : "",
    sentences: () => `Partitions for each unit of a member's capacity, ${chosen ? "as " + plans[chosen].assignor + " would plan it" : "as it is now"}. The group is balanced if all bars are equal.`,
    draw: (width) => rowsOfBars(width, members().map((m) => [group.members[m], each(chosen, m), `${number(each(chosen, m))} (${number(held[chosen][m])} / ${number(group.capacity[m])})`]),
      "Partitions over capacity of each member", () => chosen ? colour(1) : colour(0)),
    tools: plans.length > 1 ? [selection("Loads of", plans.map((plan, i) => [i, plan.assignor]), chosen, (i) => { chosen = i; box.refresh(); })] : [],
    head: () => ["Member", "Capacity", ...plans.flatMap((plan) => [plan.assignor, `${plan.assignor} / capacity`])],
    rows: () => group.members.map((label, m) => [label, group.capacity[m], ...plans.flatMap((_, i) => [held[i][m], each(i, m)])]),
  });
  return box;
}
function crossRack(group) {
  const plans = [group.now, ...group.plans].filter((plan) => plan.rack_misses !== null);
  if (!plans.length) return null;
  const share = (plan) => plan.assigned ? plan.rack_misses / plan.assigned : 0;
  const rows = plans.map((plan) => [plan.assignor, share(plan), `${Math.round(share(plan) * 100)} % (${number(plan.rack_misses)})`]);
  return figure({
    id: "racks", title: "Read from another rack", sentences: () => "Partitions whose owner has no replica in its own rack, and reads across. Clouds charge for traffic between zones.",
    draw: (width) => rowsOfBars(width, rows, "Share of partitions whose owner has no replica in its own rack", (i) => plans[i] === group.now ? colour(0) : colour(5)),
    head: () => ["Strategy", "Cross-rack partitions", "Partitions"], rows: () => plans.map((plan) => [plan.assignor, plan.rack_misses, plan.assigned]),
  });
}
