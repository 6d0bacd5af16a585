// A live page: rounds of its server come as events, and so do the pictures of the group that is chosen.
function lagByTopic(group) {
  const lag = group.topics.map(() => 0);
  group.topic_of.forEach((t, p) => { lag[t] += group.lag[p]; });
  return group.topics.map((topic, t) => [topic, group.lag_known ? lag[t] : null]);
}

// A row of the list, of a group in full as of one that is only listed.
const rows = new WeakMap();
function rowFor(group) {
  if (!group.history) return group;
  if (!rows.has(group)) rows.set(group, rowMade(group));
  return rows.get(group);
}
function rowMade(group) {
  const past = group.history.rebalances;
  return {
    group: group.group, kind: group.kind ?? "", state: group.state, protocol: group.protocol, verdict: group.verdict, why: group.why,
    members: group.members.length, partitions: group.number.length, lag: lagOf(group), heaviest: heaviest(group),
    topics: lagByTopic(group), who: group.members, ...group.pace,
    rebalances: past.length, moved: movesOf(group), needless: needlessOf(group),
  };
}

// What a reader opened, chose and scrolled stays when a picture is drawn anew.
function keepingPlace(box, draw) {
  const active = document.activeElement, held = new Map(), at = scrollY;
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
