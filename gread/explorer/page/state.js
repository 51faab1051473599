// Settings in a link: each has a default value, a writer and a reader.

/** Links are untrusted input: `read` returns undefined for an invalid value. */
const oneOf = (choices, value) => ({ value, read: (text) => (choices().includes(text) ? text : undefined), write: String });
const within = (value, min, max, whole = false) => ({
  value,
  read(text) {
    const found = Number(text);
    if (text === "" || !Number.isFinite(found) || found < min || found > max) return undefined;
    return whole ? Math.round(found) : found;
  },
  write: (given) => String(Number(given.toPrecision(10))),
});
const several = (value, min, max, most) => ({
  value,
  read(text) {
    const found = text.split(",").map((part) => within(0, min, max).read(part));
    return found.includes(undefined) || found.length > most ? undefined : found;
  },
  write: (given) => given.map((part) => String(Number(part.toPrecision(10)))).join(","),
});
const free = (value, longest) => ({ value, read: (text) => (text.length <= longest ? text : undefined), write: String });

const STROKE = ["step", "channel", "x", "y", "reach", "value"];
const brushwork = {
  value: [],
  read(text) {
    if (text === "") return [];
    const found = text.split("_").map((stroke) => stroke.split("~").map(Number));
    if (found.length > 5000 || found.some((stroke) => stroke.length !== 6 || !stroke.every(Number.isFinite))) return undefined;
    return found.map((stroke) => Object.fromEntries(STROKE.map((name, k) => [name, stroke[k]])));
  },
  write: (strokes) => strokes.map((stroke) => STROKE.map((name) => stroke[name]).join("~")).join("_"),
};

const CHANNELS = 4;

const SETTINGS = {
  view: oneOf(() => Object.keys(VIEWS), "playground"),
  graph: oneOf(() => [...Object.keys(GRAPHS), "own"], "grid"),
  n: within(1600, 3, 10000, true),
  degree: within(8, 1, 40),
  homophily: within(0.8, 0, 1),
  blocks: within(2, 2, 6, true),
  seed: within(0, 0, 9999, true),
  normalization: oneOf(() => ["symmetric", "row", "column"], "row"),
  loops: within(0, 0, 1, true),
  start: oneOf(() => Object.keys(STARTS), "letter"),
  channels: within(1, 1, CHANNELS, true),
  reaction: oneOf(() => DATA.reactions.map(({ name }) => name), "bs"),
  alpha: several([1], 0, 4, CHANNELS),
  beta: several([1], -4, 4, CHANNELS),
  tau: within(0.25, 0.001, 5),
  solver: oneOf(() => DATA.solvers.map(({ name }) => name), "rk4"),
  time: within(50, 0.1, 1000),
  step: within(0, 0, 1e6, true),
  look: oneOf(() => Object.keys(LOOKS), "beside"),
  channel: within(0, 0, CHANNELS - 1, true),
  palette: oneOf(() => Object.keys(PALETTES), "magma"),
  colours: oneOf(() => ["start", "now"], "start"),
  speed: within(1, 1, 16, true),
  strokes: brushwork,
  own: free("", 40000),
  model: free("", 100),
  moment: within(1, 0, 1),
  tint: oneOf(() => Object.keys(TINTS), "class"),
  wrong: within(0, 0, 1, true),
  node: within(-1, -1, 1e6, true),
  dataset: free("", 100),
  group: free("", 100),
  filter: free("", 100),
  sort: free("", 100),
};

function defaults() {
  return Object.fromEntries(Object.entries(SETTINGS).map(([name, { value }]) => [name, value]));
}

/** Settings in a link, and the names of invalid ones. */
function readLink(hash) {
  const settings = defaults();
  const wrong = [];
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    const found = Object.hasOwn(SETTINGS, name) ? SETTINGS[name].read(text) : undefined;
    if (found === undefined) wrong.push(name);
    else settings[name] = found;
  }
  return { settings, wrong };
}

/** Settings of each view. */
const CARRIED = {
  playground: Object.keys(SETTINGS).slice(1, Object.keys(SETTINGS).indexOf("model")),
  model: ["model", "moment", "tint", "wrong", "node"],
  leaderboard: ["dataset", "group", "filter", "sort"],
};

function writeLink(settings) {
  const written = new URLSearchParams({ view: settings.view });
  for (const name of CARRIED[settings.view]) {
    const text = SETTINGS[name].write(settings[name]);
    if (text !== "" || SETTINGS[name].write(SETTINGS[name].value) !== "") written.set(name, text);
  }
  return `#${written}`;
}
