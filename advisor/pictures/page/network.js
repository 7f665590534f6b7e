// A network as composed: series from left to right, branches one above the other, frames around what repeats or returns.
function drawNetwork(tree, words) { return tag("div", { class: "network", role: "group", "aria-label": words }, partOf(tree)); }
function partOf(part) {
  if (part.kind === "box") return boxOf(part);
  if (part.kind === "more") return tag("span", { class: "pill" }, "… " + part.boxes.toLocaleString("en") + " more boxes");
  const label = part.label || part.kind, title = tag("span", { class: "soft sign", title: label }, isolated(label));
  if (!part.children || !part.children.length) return tag("span", { class: "pill", title: label }, isolated(label));
  const inside = part.children.map(partOf);
  if (part.kind === "series") return tag("div", { class: "series" }, inside);
  if (part.kind !== "choice" && part.kind !== "join") return tag("div", { class: "frame" }, title, inside[0]);
  const share = i => part.shares && part.shares[i] != null
    ? tag("span", { class: "soft share" }, (100 * part.shares[i]).toFixed(part.shares[i] < 0.1 ? 1 : 0) + " % of records") : null;
  return tag("div", { class: "branches " + part.kind, title: part.kind === "join" ? "each record goes to all branches" : "each record goes to one branch" },
    inside.map((each, i) => tag("div", { class: "branch" }, share(i), tag("div", { class: "way" }, each))));
}
function coresOf(box) {
  if (box.cores == null) return box.instances ? "in turn" : "";
  const one = box.cores + (box.cores === 1 ? " core" : " cores");
  return (box.instances > 1 ? box.instances + " × " : "") + one + (box.in_turn ? ", in turn" : "");
}
function boxOf(box) {
  const busy = box.utilization == null ? null : Math.round(100 * box.utilization) + " % busy", words = [box.key, coresOf(box), busy, box.bottleneck && "the bottleneck"];
  return tag("a", { class: box.bottleneck ? "box bottleneck" : "box", href: "#/component/" + encodeURIComponent(box.component || box.key),
    "aria-label": words.filter(Boolean).join(", ") }, tag("b", { class: "name", title: box.key }, isolated(box.key)), tag("span", { class: "soft" }, coresOf(box)),
    busy ? tag("span", { class: "busy" }, tag("progress", { class: "load", value: Math.min(1, box.utilization), max: 1 }), tag("span", { class: "soft" }, busy)) : null);
}
