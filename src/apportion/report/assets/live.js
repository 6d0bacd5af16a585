// A live page: rounds of its server come as events, and so do the pictures of the group that is chosen.
// Lag at the last rounds: a line a member and a line a partition, each side in one scale.
function lagLines(group) {
  const { at, members, partitions } = group.lines;
  const sides = () => [["Members", members], ["Partitions", partitions]].filter(([, rows]) => rows.length);
  const least = (values) => { const known = values.filter((n) => n !== null); return known.length ? Math.min(...known) : null; };
  function draw(width) {
    const shown = sides(), across = width < 700 ? 1 : shown.length, column = (width - (across - 1) * 28) / across, step = 24;
    const tops = across > 1 ? [0, 0] : [0, 22 + (shown[0]?.[1].length ?? 0) * step + 14];
    const tall = Math.max(...shown.map(([, rows], s) => tops[s] + 22 + rows.length * step));
    const picture = canvas(width, tall + 4, "Lag at the last rounds, a line a member and a line a partition; the table below has the numbers");
    shown.forEach(([title, rows], s) => {
      const x0 = across > 1 ? s * (column + 28) : 0, most = Math.max(1, ...rows.flatMap(([, values]) => values.map((n) => n ?? 0)));
      const now = Math.max(...rows.map(([, values]) => places(number(values.at(-1))))) + 6, name = clamp(Math.max(...rows.map(([label]) => places(label))) + 8, 60, column * .42);
      picture.append(words(x0, tops[s] + 12, title, { class: "soft" }));
      rows.forEach(([label, values], i) => {
        const y = tops[s] + 20 + i * step, wide = Math.max(40, column - name - now);
        picture.append(hint(words(x0, y + 15, fit(label, name - 6)), label));
        const line = sparkline(values, `${label}: ${fromTo(values)}`, wide, step - 2, most);
        line.setAttribute("x", x0 + name); line.setAttribute("y", y);
        picture.append(line, words(x0 + column, y + 15, number(values.at(-1)), { "text-anchor": "end" }));
      });
    });
    return picture;
  }
  const seconds = Math.round((at.at(-1) - at[0]) / 1000);
  return figure({
    id: "lines", title: "Lag over the last rounds", wide: true, draw,
    finding: () => members.length === 40 || partitions.length === 40 ? "Only the 40 with most to read are drawn." : "",
    sentences: () => `The lag of each member and each partition in the last ${lasting(seconds)}, ${count(at.length, "look")} in all. All lines of a column have one scale, which begins at zero.`,
    head: () => ["What", "Name", "Lag at first", "Least", "Most", "Now"],
    rows: () => sides().flatMap(([title, rows]) => rows.map(([label, values]) => [title === "Members" ? "member" : "partition", label, values[0], least(values), Math.max(...values.map((n) => n ?? 0)), values.at(-1)])),
  });
}

// What a reader opened, chose and scrolled stays when a picture is drawn anew.
function keepingPlace(box, draw) {
  const active = document.activeElement, held = new Map(), at = scrollY;
  // What a reader works with stays where it is on the screen, or the first picture in sight.
  const top = (node) => node.getBoundingClientRect().top;
  const seen = box.contains(active) ? active : top(box) < 0 ? [...box.querySelectorAll("figure")].find((node) => node.getBoundingClientRect().bottom > 0) : null;
  const place = seen && top(seen);
  const key = (node) => [node.closest("figure")?.id, node.tagName, [...(node.closest("figure") ?? box).querySelectorAll(node.tagName)].indexOf(node)].join(" ");
  const all = () => [...box.querySelectorAll("details, select, .scroll, .picture")];
  for (const node of all()) held.set(key(node), { open: node.open, value: node.selectedOptions?.[0]?.textContent, left: node.scrollLeft, top: node.scrollTop });
  const focused = box.contains(active) ? (active.id ? "#" + CSS.escape(active.id) : null) ?? key(active) : null;
  draw();
  for (const node of all()) {
    const was = held.get(key(node));
    if (!was) continue;
    if (node.tagName === "DETAILS" && was.open) node.open = true;
    if (node.tagName === "SELECT" && was.value !== node.selectedOptions[0]?.textContent) {
      const same = [...node.options].find((option) => option.textContent === was.value);
      if (same) { node.value = same.value; node.dispatchEvent(new Event("change")); }
    }
    node.scrollLeft = was.left; node.scrollTop = was.top;
  }
  if (focused) (focused.startsWith("#") ? box.querySelector(focused) : [...box.querySelectorAll("a, button, select, summary, [tabindex]")].find((node) => key(node) === focused))?.focus({ preventScroll: true });
  scrollTo({ top: at, behavior: "instant" });
  const same = seen === active ? document.activeElement : seen && document.getElementById(seen.id);
  if (same) scrollBy({ top: top(same) - place, behavior: "instant" });
}

// One stream at a time: the rounds, and the group that is looked at.
function listen(state, onRound, onGroup, onSilence) {
  let stream = null;
  return (group) => {
    stream?.close();
    const asked = new URLSearchParams({ since: state.number });
    if (group !== null) asked.set("group", group);
    stream = new EventSource("events?" + asked);
    stream.addEventListener("round", (event) => { const round = JSON.parse(event.data); state.number = round.number; onRound(round); });
    stream.addEventListener("group", (event) => onGroup(JSON.parse(event.data)));
    stream.addEventListener("error", () => onSilence());
  };
}
