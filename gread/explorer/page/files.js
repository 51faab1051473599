// A user's graph from a file: an edge list, or JSON with nodes and edges. Invalid input raises a one-line FileProblem.

const MOST = { bytes: 20e6, nodes: 20000, edges: 200000 };

class FileProblem extends Error {}

/** Parse a graph. */
function graphFromText(text, name) {
  const found = /^\s*[{[]/.test(text) ? fromJson(text, name) : fromLines(text, name);
  const count = found.ids.length;
  if (count < 2) throw new FileProblem(`${name} must hold edges between at least two nodes, got ${count === 0 ? "none" : "one node"}.`);
  if (count > MOST.nodes) throw new FileProblem(`${name} has ${count} nodes; at most ${MOST.nodes} are accepted.`);
  const { pairs, weights } = once(found.edges);
  if (weights.length === 0) throw new FileProblem(`${name} has no edges between different nodes.`);
  if (weights.length > MOST.edges) throw new FileProblem(`${name} has ${weights.length} edges; at most ${MOST.edges} are accepted.`);
  const [x, y] = (found.places ?? layout(count, pairs)).map((places) => places.map(rounded)); // as stored in a link
  const labels = found.classes && [...new Set(found.classes)].sort();
  return graphOf(count, pairs, x, y, {
    weights,
    names: found.ids,
    ...(labels && { labels, classes: Int32Array.from(found.classes, (label) => labels.indexOf(label)) }),
  });
}

/** Parse lines "source, target" or "source, target, weight", separated by commas, tabs, semicolons or spaces. */
function fromLines(text, name) {
  const [numbers, edges] = [new Map(), []];
  const node = (id) => {
    if (!numbers.has(id)) numbers.set(id, numbers.size);
    return numbers.get(id);
  };
  let header = true;
  text.split(/\r?\n/).forEach((line, k) => {
    if (line.trim() === "" || /^\s*[#%]/.test(line)) return;
    const parts = line
      .trim()
      .split(/ *[\t,;] *|\s+/)
      .map((part) => part.trim().replace(/^"(.*)"$/, "$1"));
    if (parts.length < 2 || parts.length > 3 || parts[0] === "" || parts[1] === "") {
      throw new FileProblem(`${name}, line ${k + 1}: expected source, target and an optional weight, got “${line.trim().slice(0, 40)}”.`);
    }
    const first = header;
    header = false;
    if (first && /^(source|src|from|node1|u)$/i.test(parts[0])) return;
    const weight = parts.length === 3 ? Number(parts[2]) : 1;
    if (!(Number.isFinite(weight) && weight > 0)) {
      throw new FileProblem(`${name}, line ${k + 1}: expected a weight above zero, got “${parts[2].slice(0, 40)}”.`);
    }
    edges.push([node(parts[0]), node(parts[1]), weight]);
  });
  return { ids: [...numbers.keys()], edges };
}

/** Parse {"nodes": [{"id", "x", "y", "class"}], "edges" or "links": [{"source", "target", "weight"}]}, the node-link format of NetworkX. */
function fromJson(text, name) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new FileProblem(`${name} is not valid JSON: ${error.message}.`);
  }
  const list = Array.isArray(value) ? value : (value.edges ?? value.links);
  if (!Array.isArray(list))
    throw new FileProblem(`${name} must have a list “edges” or “links”, got ${Object.keys(value).slice(0, 5).join(", ") || "nothing"}.`);
  const nodes = Array.isArray(value.nodes)
    ? value.nodes.map((node) => (typeof node === "object" && node !== null ? node : { id: node }))
    : null;
  const numbers = new Map(nodes?.map((node, k) => [String(node.id), k]));
  if (nodes && numbers.size !== nodes.length) throw new FileProblem(`${name} must give every node a unique id.`);
  const node = (id, k) => {
    const known = String(id);
    if (id === undefined || id === null || (nodes && !numbers.has(known))) {
      throw new FileProblem(`${name}, edge ${k + 1}: expected the id of a node, got ${JSON.stringify(id) ?? "nothing"}.`);
    }
    if (!numbers.has(known)) numbers.set(known, numbers.size);
    return numbers.get(known);
  };
  const edges = list.map((edge, k) => {
    const [source, target, weight = 1] = Array.isArray(edge) ? edge : [edge?.source, edge?.target, edge?.weight];
    if (!(Number.isFinite(weight) && weight > 0))
      throw new FileProblem(`${name}, edge ${k + 1}: expected a weight above zero, got ${JSON.stringify(weight)}.`);
    return [node(source, k), node(target, k), weight];
  });
  const label = (item) => item.class ?? item.label ?? item.club ?? item.y_class;
  return {
    ids: [...numbers.keys()],
    edges,
    places: nodes?.every(({ x, y }) => Number.isFinite(x) && Number.isFinite(y))
      ? ["x", "y"].map((side) => stretched(Float64Array.from(nodes, (item) => item[side])))
      : null,
    classes: nodes?.every((item) => label(item) !== undefined) ? nodes.map((item) => String(label(item))) : null,
  };
}

/** Undirected edges without self loops and duplicates; the first weight of a duplicate is used. */
function once(edges) {
  const [known, pairs, weights] = [new Set(), [], []];
  for (const [a, b, weight] of edges) {
    const edge = a < b ? `${a} ${b}` : `${b} ${a}`;
    if (a === b || known.has(edge)) continue;
    known.add(edge);
    pairs.push(Math.min(a, b), Math.max(a, b));
    weights.push(weight);
  }
  return { pairs, weights: Float64Array.from(weights) };
}

/** Compress a user's graph for a link; null if it is too long. */
async function packed(graph) {
  const value = { n: graph.names, e: [...graph.pairs], x: [...graph.x], y: [...graph.y] };
  if (graph.weights.some((weight) => weight !== 1)) value.w = [...graph.weights];
  if (graph.labels) Object.assign(value, { c: [...graph.classes], l: graph.labels });
  const stream = new Blob([JSON.stringify(value)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  if (bytes.length > LONGEST) return null;
  return btoa(String.fromCharCode(...bytes))
    .replace(/\+/g, "-")
    .replace(/\//g, "_")
    .replace(/=+$/, "");
}

const LONGEST = 24000;
const rounded = (place) => Math.round(place * 1e4) / 1e4;

/** Decompress the output of `packed`; throws if the text is invalid. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const value = JSON.parse(await new Response(stream).text());
  const whole = (list, below) => list.every((item) => Number.isInteger(item) && item >= 0 && item < below);
  const count = value.n.length;
  if (count > MOST.nodes || value.x.length !== count || value.y.length !== count || !whole(value.e, count))
    throw new FileProblem("no graph");
  return graphOf(count, value.e, Float64Array.from(value.x), Float64Array.from(value.y), {
    names: value.n.map(String),
    ...(value.w && { weights: Float64Array.from(value.w) }),
    ...(value.l && { labels: value.l.map(String), classes: Int32Array.from(value.c) }),
  });
}
