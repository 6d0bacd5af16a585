// A switch to the broker's protocol: each topic's shares now, after an online upgrade and anew; moves in the history.
const MOST_TOPICS = 12;
const SIDES = [["now", (group) => group.owner], ["online", (group) => group.switch.online], ["anew", (group) => group.switch.fresh]];

// Topic to its partitions held by each member, [member, partitions] with the most first.
function topicShares(group, owner) {
  const held = group.topics.map(() => new Map());
  owner.forEach((m, p) => { if (m !== NOBODY) held[group.topic_of[p]].set(m, (held[group.topic_of[p]].get(m) ?? 0) + 1); });
  return held.map((members) => [...members].sort((a, b) => b[1] - a[1] || a[0] - b[0]));
}

function switchShares(group) {
  const sizes = group.topics.map(() => 0);
  group.topic_of.forEach((t) => { sizes[t] += 1; });
  const shares = SIDES.map(([, owner]) => topicShares(group, owner(group)));
  const worst = (t) => Math.max(...shares.map((of) => (of[t][0]?.[1] ?? 0) / sizes[t]));
  const topics = group.topics.map((_, t) => t).filter((t) => sizes[t] > 1 && shares.some((of) => of[t].length));
  topics.sort((a, b) => worst(b) - worst(a) || a - b);
  const shown = topics.slice(0, MOST_TOPICS), percent = (part, t) => Math.round(part / sizes[t] * 100) + " %";

  function draw(width) {
    const bar = 13, step = SIDES.length * (bar + 3) + 26, left = 54, room = Math.max(60, width - left - 56);
    const picture = canvas(width, Math.max(1, shown.length) * step, "Share of each topic on each member: now, after an online upgrade, and in a group that starts without a past");
    shown.forEach((t, i) => {
      const y0 = i * step + 14;
      picture.append(hint(words(0, y0, fit(group.topics[t], width), {}), `${group.topics[t]}: ${count(sizes[t], "partition")}`));
      SIDES.forEach(([side], s) => {
        const y = y0 + 6 + s * (bar + 3);
        let x = left;
        for (const [m, n] of shares[s][t]) {
          const wide = n / sizes[t] * room;
          picture.append(hint(svg("rect", { x, y, width: Math.max(wide - .8, .6), height: bar, fill: colour(m) }), `${group.members[m]}: ${number(n)} of ${number(sizes[t])}, ${side}`));
          if (wide > places(letter(m)) + 4) picture.append(words(x + 4, y + bar - 3, letter(m), { class: "small", style: `fill:${inkOn(m)}` }));
          x += wide;
        }
        picture.append(words(left - 6, y + bar - 3, side, { "text-anchor": "end", class: "soft small" }));
        picture.append(words(left + room + 6, y + bar - 3, percent(shares[s][t][0]?.[1] ?? 0, t), { class: "small" }));
      });
    });
    return picture;
  }
  return figure({
    id: "switch-shares", title: "Who would have how much of each topic", draw,
    finding: () => topics.length > shown.length ? `Of ${number(topics.length)} topics the ${MOST_TOPICS} most lopsided are drawn.` : "",
    sentences: () => "Each piece is a member, and next to each bar is the greatest share of one member. The broker's uniform assignor evens out what members hold in all, whatever the topic.",
    key: () => group.members.slice(0, 12).map((label, m) => [label, colour(m), letter(m)]),
    head: () => ["Topic", "Partitions", ...SIDES.map(([side]) => `most on one member, ${side}`)],
    rows: () => topics.map((t) => [group.topics[t], sizes[t], ...shares.map((of) => percent(of[t][0]?.[1] ?? 0, t))]),
  });
}

function switchMoves(group) {
  const past = group.switch.history, bars = [["as it was", past.recorded], ["uniform", past["broker-uniform"]], ["range (broker)", past["broker-range"]], ["sticky", past.sticky]];
  return figure({
    id: "switch-moves", title: "Moves in its history under the broker's assignors",
    finding: () => past.stopped ? `Besides, members gave up ${count(past.stopped, "partition")} only to get the same back, as eager ones do.` : "",
    sentences: () => `How many partitions moved in ${count(past.generations, "recorded generation")}, and how many each assignor would have moved.`,
    draw: (width) => rowsOfBars(width, bars.map(([name, n]) => [name, n, `${number(n)} moved`]), "Partitions moved in the recorded history: as it was, and under each assignor", (i) => i ? colour(0) : "var(--then)"),
    head: () => ["Assignor", "Moved"], rows: () => bars,
  });
}

function switchFigures(group) {
  const comparison = group.switch;
  const text = element("figure", { class: "wide", id: "picture-switch", "aria-labelledby": "title-switch" },
    element("figcaption", {}, element("h3", { id: "title-switch" }, "Should it switch to the broker's protocol?"),
      ...comparison.advice.map((sentence, i) => element("p", { class: i ? null : "advice" }, sentence)),
      ...(comparison.traps.length ? [element("ul", { class: "odd" }, ...comparison.traps.map((sentence) => element("li", {}, sentence)))] : [])));
  return [text, switchShares(group), ...(comparison.history ? [switchMoves(group)] : [])];
}
