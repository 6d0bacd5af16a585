// A group's history: what each rebalance moved and why, who owned what, and one rebalance from old owner to new.
const MOST_REBALANCES = 80;
const isMove = (before, after) => before !== NOBODY && after !== NOBODY && before !== after;

function timeline(group) {
  const { rebalances } = group.history, replays = group.replays, from = Math.max(0, rebalances.length - MOST_REBALANCES);
  const named = (name) => replays.findIndex((replay) => replay.assignor === name);
  const chosen = [named("cooperative-sticky"), named("range")];
  const sides = () => [
    ["as it was", rebalances.map((r) => r.moved ?? 0), "var(--then)"],
    ...chosen.map((i, c) => replays[i] ? [replays[i].assignor, replays[i].moves, colour(c)] : null).filter(Boolean),
  ];
  const causes = (r) => (r.cause || "?").split(/,\s*/);

  function draw(width) {
    const shown = rebalances.slice(from), left = 78, tall = 130, base = 18 + tall, drawnSides = sides();
    const most = Math.max(1, ...drawnSides.flatMap(([, moves]) => moves.slice(from).map((n) => n ?? 0)));
    const slot = clamp((width - left) / shown.length, 74, 150), deep = Math.max(...shown.map((r) => causes(r).length));
    const full = Math.max(width, left + shown.length * slot);
    const picture = canvas(full, base + 66 + deep * 14, "Partitions moved by each rebalance, as it was and under other strategies");
    for (const n of ticks(most)) {
      const y = base - tall * n / most;
      picture.append(svg("line", { x1: left, x2: full, y1: y, y2: y, stroke: "var(--grid)" }));
      picture.append(words(left - 8, y + 4, number(n), { "text-anchor": "end", class: "soft" }));
    }
    const rows = [["generation", base + 18], ["members", base + 34], ["time, UTC", base + 50], ["cause", base + 66]];
    for (const [name, y] of rows) picture.append(words(left - 8, y, name, { "text-anchor": "end", class: "soft small" }));
    shown.forEach((r, i) => {
      const x = left + i * slot, wide = Math.min(30, (slot - 14) / drawnSides.length), start = x + (slot - wide * drawnSides.length) / 2, middle = x + slot / 2;
      drawnSides.forEach(([name, moves, paint], s) => {
        const n = moves[from + i] ?? 0, h = n / most * tall, here = start + s * wide;
        picture.append(hint(svg("rect", { x: here, y: base - Math.max(h, 1), width: wide - 2, height: Math.max(h, 1), fill: paint }), `generation ${r.generation}, ${name}: ${number(n)} moved`));
        if (n) picture.append(words(here + wide / 2 - 1, base - h - 4, number(n), { "text-anchor": "middle", class: "small" }));
      });
      picture.append(words(middle, rows[0][1], String(r.generation ?? "?"), { "text-anchor": "middle" }));
      picture.append(words(middle, rows[1][1], number(r.members), { "text-anchor": "middle", class: "soft" }));
      picture.append(hint(words(middle, rows[2][1], (r.at ?? "").slice(11, 19) || "–", { "text-anchor": "middle", class: "soft small" }), r.at ?? ""));
      causes(r).forEach((cause, line) => picture.append(hint(words(middle, rows[3][1] + line * 14, short(cause, 12), { "text-anchor": "middle", class: "small" }), r.cause ?? "?")));
    });
    return picture;
  }
  const pick = (which) => selection("Overlay", [[-1, "none"], ...replays.map((replay, i) => [i, replay.assignor])], chosen[which], (i) => { chosen[which] = i; box.refresh(); });
  const box = figure({
    id: "timeline", title: "Rebalances", wide: true, draw, tools: replays.length ? [pick(0), pick(1)] : [],
    finding: () => from ? `Drawn are the last ${MOST_REBALANCES} of ${number(rebalances.length)}; the numbers below have all of them.` : "",
    sentences: () => "How many partitions each rebalance moved from a member that stayed to another. A cooperative move takes two rounds and counts in the second.",
    key: () => sides().map(([name, moves, paint]) => [`${name}: ${number(sum(moves.map((n) => n ?? 0)))} in all`, paint]),
    head: () => ["Generation", "At", "Cause", "Members", "Moved", "Needless", "Kept", "Given", ...replays.map((r) => r.assignor)],
    rows: () => rebalances.map((r, g) => [r.generation, r.at, r.cause, r.members, r.moved, r.needless, r.kept, r.given, ...replays.map((replay) => replay.moves[g])]),
  });
  return box;
}

// One partition's owners as runs of generations; before is who last had it.
function stays(owners, from) {
  const runs = [];
  let before = NOBODY;
  owners.forEach((m, g) => {
    const open = runs.at(-1);
    if (open && open.m === m) open.last = g; else runs.push({ m, before, first: g, last: g });
    if (m !== NOBODY) before = m;
  });
  return runs.filter((stay) => stay.last >= from);
}
function heatMap(group) {
  const { rows, owners, labels, rebalances, left_out, movers } = group.history, moving = movers.map((rows) => rows && new Set(rows)), from = Math.max(0, rebalances.length - MOST_REBALANCES);
  function draw(width) {
    const shown = rebalances.slice(from), left = clamp(Math.max(...rows.map(places), places("generation")) + 10, 60, Math.max(90, width * .3));
    const cell = Math.max(20, (width - left - 4) / Math.max(5, shown.length)), tall = rows.length > 80 ? 10 : 18, top = 22;
    const picture = canvas(Math.max(width, left + shown.length * cell + 4), top + rows.length * tall + 4, "Owner of each partition over the generations; a strong edge marks a move; the table below has the names");
    picture.append(words(left - 8, 14, "generation", { "text-anchor": "end", class: "soft small" }));
    shown.forEach((rebalance, i) => picture.append(words(left + i * cell + cell / 2, 14, String(rebalance.generation ?? "?"), { "text-anchor": "middle", class: "soft small" })));
    rows.forEach((row, r) => {
      const y = top + r * tall;
      if (tall >= 12 || r % 2 === 0) picture.append(hint(words(left - 8, y + tall * .72, fit(row, left - 8), { "text-anchor": "end", class: tall < 12 ? "tiny" : null }), row));
      for (const { m, before, first, last } of stays(owners[r], from)) {
        const moved = (moving[first] ? moving[first].has(r) : isMove(before, m)) && first >= from, x = left + (Math.max(first, from) - from) * cell, end = left + (last + 1 - from) * cell;
        const when = first === last ? `generation ${rebalances[first].generation}` : `generations ${rebalances[first].generation} to ${rebalances[last].generation}`;
        const box = svg("rect", { x: x + 1, y, width: end - x - 1, height: tall - 1, fill: colour(m) });
        picture.append(hint(box, `${row}, ${when}: ${m === NOBODY ? "nobody" : labels[m]}${moved ? ", moved from " + labels[before] : ""}`));
        if (moved) picture.append(svg("rect", { x: x - 1, y, width: 4, height: tall - 1, fill: "var(--ink)", class: "edge" }));
        if (m !== NOBODY && tall > 12) picture.append(words(x + cell / 2 + 1, y + 13, letter(m), { "text-anchor": "middle", class: "tiny over", style: `fill:${inkOn(m)}` }));
      }
    });
    for (let i = 1; i < shown.length; i++) picture.append(svg("line", { x1: left + i * cell + .5, x2: left + i * cell + .5, y1: top, y2: top + rows.length * tall, class: "column" }));
    return picture;
  }
  const shownLabels = labels.slice(0, 30);
  return figure({
    id: "owners", title: "Owners over the generations", wide: true, draw,
    sentences: () => "Each row is a partition and each column a generation. Colour and letter show the member, and a strong edge marks a move.",
    finding: () => (left_out ? `${count(left_out, "partition")} that moved least ${left_out === 1 ? "is" : "are"} not drawn.` : "")
      + (from ? ` Drawn are the last ${MOST_REBALANCES} of ${number(rebalances.length)} generations; the numbers below have all of them.` : ""),
    key: () => [...shownLabels.map((label, m) => [label, colour(m), letter(m)]), ["nobody", colour(NOBODY)],
      ...(labels.length > shownLabels.length ? [[`${number(labels.length - shownLabels.length)} more`, "none"]] : [])],
    head: () => ["Partition", ...rebalances.map((r) => "gen " + r.generation)], rows: () => rows.map((row, r) => [row, ...owners[r].map((m) => m === NOBODY ? "–" : labels[m])]),
  });
}

const MOST_SIDES = 30;
// Owner before and after, and how many partitions; beyond thirty members only what moved most.
function flows(group, g) {
  const { owners, rebalances } = group.history, counts = new Map();
  owners.forEach((row) => { const pair = row[g - 1] + ">" + row[g]; counts.set(pair, (counts.get(pair) ?? 0) + 1); });
  const all = [...counts].map(([pair, n]) => [...pair.split(">").map(Number), n]).filter(([a, b]) => a !== NOBODY || b !== NOBODY);
  const members = new Set(all.flatMap(([a, b]) => [a, b]));
  const links = members.size <= MOST_SIDES ? all : all.filter(([a, b]) => a !== b).sort((a, b) => b[2] - a[2]).slice(0, MOST_SIDES);
  return { all, links: links.sort((a, b) => a[0] - b[0] || a[1] - b[1]), cut: members.size > MOST_SIDES, cause: rebalances[g].cause };
}
function handOver(group) {
  const { labels, rebalances, left_out } = group.history, name = (m) => m === NOBODY ? "nobody" : labels[m];
  // The newest rebalance in which something moved tells most.
  let g = rebalances.length - 1;
  while (g > 1 && !flows(group, g).all.some(([a, b]) => a !== b)) g -= 1;

  function draw(width) {
    const { links } = flows(group, g), total = Math.max(1, sum(links.map((link) => link[2])));
    const sides = [0, 1].map((s) => [...new Set(links.map((link) => link[s]))].sort((a, b) => a - b)), most = Math.max(1, sides[0].length, sides[1].length);
    const tall = Math.max(150, most * 30), unit = (tall - 10 * most) / total;
    const label = clamp(Math.max(...links.flatMap(([a, b]) => [places(name(a)), places(name(b))]), 40) + 40, 70, width * .34);
    const picture = canvas(width, tall + 28, "Partitions from old owner (left) to new owner (right); the table below has the numbers");
    picture.append(words(label, 12, "before", { "text-anchor": "end", class: "soft small" }), words(width - label, 12, "after", { class: "soft small" }));
    const tops = sides.map((side, s) => {
      let y = 22; const at = new Map();
      for (const m of side) {
        const n = sum(links.filter((link) => link[s] === m).map((link) => link[2])), text = fit(name(m), label - 40);
        at.set(m, y);
        picture.append(svg("rect", { x: s ? width - label - 10 : label, y, width: 10, height: Math.max(n * unit, 1), fill: m === NOBODY ? "var(--soft)" : colour(m) }));
        picture.append(hint(words(s ? width - label + 6 : label - 6, y + Math.max(n * unit, 8) / 2 + 4, s ? `${number(n)}  ${text}` : `${text}  ${number(n)}`, { "text-anchor": s ? "start" : "end" }), name(m)));
        y += n * unit + 10;
      }
      return at;
    });
    for (const [a, b, n] of links) {
      const from = tops[0].get(a), to = tops[1].get(b), h = Math.max(n * unit, 1), x1 = label + 10, x2 = width - label - 10, middle = (x1 + x2) / 2;
      const d = `M${x1},${from} C${middle},${from} ${middle},${to} ${x2},${to} V${to + h} C${middle},${to + h} ${middle},${from + h} ${x1},${from + h} Z`;
      picture.append(hint(svg("path", { d, fill: b === NOBODY ? "var(--soft)" : colour(b), "fill-opacity": a === b ? .25 : .75 }), `${count(n, "partition")} from ${name(a)} to ${name(b)}`));
      tops[0].set(a, from + n * unit); tops[1].set(b, to + n * unit);
    }
    return picture;
  }
  const box = figure({
    id: "handover", title: "One rebalance", draw,
    sentences: () => "Who had the partitions before, and who has them after. A faint band stayed where it was; a strong one moved, and has the colour of its new owner.",
    finding: () => (flows(group, g).cut ? `Only the ${MOST_SIDES} largest moves are drawn.` : "") + (left_out ? " It counts the partitions that the picture of owners shows." : ""),
    tools: [selection("Rebalance", rebalances.slice(1).map((r, i) => [i + 1, `generation ${r.generation}: ${r.cause}`]), g, (i) => { g = i; box.refresh(); })],
    head: () => ["From", "To", "Partitions"], rows: () => flows(group, g).all.map(([a, b, n]) => [name(a), name(b), n]),
  });
  return box;
}
