// Example graphs: {count, pairs, weights, x, y, classes, about}, each edge once, positions in [0, 1]².

/** Random number generator on [0, 1), identical in every browser (mulberry32). */
function randomOf(seed) {
  let state = (seed >>> 0) + 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Standard normal generator (Box-Muller). */
function normalOf(random) {
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** A graph as a value; without given classes, the left and right halves are the classes. */
function graphOf(count, pairs, x, y, about = {}) {
  const weights = about.weights ?? new Float64Array(pairs.length / 2).fill(1);
  const classes = about.classes ?? Int32Array.from(x, (place) => (place < 0.5 ? 0 : 1));
  return { kind: "dots", names: null, labels: null, ...about, count, pairs: Int32Array.from(pairs), weights, x, y, classes };
}

const GRAPHS = {
  grid: {
    title: "grid",
    sizes: { min: 16, max: 10000, value: 1600 },
    make({ n }) {
      const side = Math.round(Math.sqrt(n));
      const [pairs, count] = [[], side * side];
      for (let i = 0; i < count; i += 1) {
        if (i % side < side - 1) pairs.push(i, i + 1);
        if (i + side < count) pairs.push(i, i + side);
      }
      const at = (k) => (k + 0.5) / side;
      const x = Float64Array.from({ length: count }, (_, i) => at(i % side));
      const y = Float64Array.from({ length: count }, (_, i) => at(Math.floor(i / side)));
      return graphOf(count, pairs, x, y, { kind: "cells", side });
    },
  },
  ring: {
    title: "ring",
    sizes: { min: 3, max: 600, value: 60 },
    make({ n }) {
      const pairs = [];
      for (let i = 0; i < n; i += 1) if (n > 2 || i === 0) pairs.push(i, (i + 1) % n);
      const turn = (i) => (2 * Math.PI * i) / n;
      const x = Float64Array.from({ length: n }, (_, i) => 0.5 + 0.47 * Math.sin(turn(i)));
      const y = Float64Array.from({ length: n }, (_, i) => 0.5 - 0.47 * Math.cos(turn(i)));
      return graphOf(n, pairs, x, y);
    },
  },
  geometric: {
    title: "random geometric",
    sizes: { min: 20, max: 10000, value: 1200 },
    make({ n, degree, seed }) {
      const random = randomOf(seed);
      const places = Array.from({ length: n }, () => [random(), random()]);
      const band = (place) => Math.floor(20 * place);
      places.sort((a, b) => band(a[1]) - band(b[1]) || a[0] - b[0]); // keeps neighbours close in memory
      const [x, y] = [0, 1].map((side) => Float64Array.from(places, (place) => place[side]));
      const reach = Math.sqrt(degree / (Math.PI * Math.max(1, n - 1)));
      return graphOf(n, closePairs(x, y, reach), x, y);
    },
  },
  sbm: {
    title: "stochastic blocks",
    sizes: { min: 20, max: 5000, value: 400 },
    make({ n, degree, seed, homophily, blocks }) {
      const random = randomOf(seed);
      const classes = Int32Array.from({ length: n }, (_, i) => Math.floor((i * blocks) / n));
      const first = [...Array(blocks + 1).keys()].map((c) => Math.ceil((c * n) / blocks));
      const wanted = Math.round((n * degree) / 2);
      const known = new Set();
      const pairs = [];
      const from = (c) => first[c] + Math.floor(random() * (first[c + 1] - first[c]));
      for (let turn = 0; turn < 20 * wanted && pairs.length < 2 * wanted; turn += 1) {
        const a = Math.floor(random() * n);
        const own = classes[a];
        const other = blocks === 1 || random() < homophily ? own : (own + 1 + Math.floor(random() * (blocks - 1))) % blocks;
        const b = from(other);
        const edge = a < b ? a * n + b : b * n + a;
        if (a === b || known.has(edge)) continue;
        known.add(edge);
        pairs.push(a, b);
      }
      const [x, y] = inBlocks(classes, first, blocks);
      return graphOf(n, pairs, x, y, { classes });
    },
  },
  karate: {
    title: "karate club",
    sizes: null,
    make() {
      const pairs = KARATE.flatMap((others, a) => others.flatMap((b) => [a, b]));
      const classes = Int32Array.from({ length: 34 }, (_, i) => (OFFICER.includes(i) ? 1 : 0));
      const [x, y] = layout(34, pairs);
      return graphOf(34, pairs, x, y, { classes, labels: ["Mr. Hi", "officer"] });
    },
  },
};

/** Zachary's karate club (1977): for every member, the neighbours with a higher index. */
const KARATE = [
  [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 17, 19, 21, 31], [2, 3, 7, 13, 17, 19, 21, 30], [3, 7, 8, 9, 13, 27, 28, 32],
  [7, 12, 13], [6, 10], [6, 10, 16], [16], [], [30, 32, 33], [33], [], [], [], [33], [32, 33], [32, 33], [], [],
  [32, 33], [33], [32, 33], [], [32, 33], [25, 27, 29, 32, 33], [25, 27, 31], [31], [29, 33], [33], [31, 33], [32, 33],
  [32, 33], [32, 33], [33], [],
];
const OFFICER = [9, 14, 15, 18, 20, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33];

/** All pairs of points closer than ``reach``, found with a grid of cells of at least that size. */
function closePairs(x, y, reach) {
  const across = Math.max(1, Math.floor(1 / reach));
  const cells = new Map();
  const cell = (place) => Math.min(across - 1, Math.floor(place * across));
  const pairs = [];
  for (let i = 0; i < x.length; i += 1) {
    const [cx, cy] = [cell(x[i]), cell(y[i])];
    for (let dx = -1; dx <= 1; dx += 1) {
      for (let dy = -1; dy <= 1; dy += 1) {
        for (const j of cells.get((cx + dx) * 65536 + cy + dy) ?? []) {
          if ((x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2 < reach * reach) pairs.push(j, i);
        }
      }
    }
    const here = cx * 65536 + cy;
    if (!cells.has(here)) cells.set(here, []);
    cells.get(here).push(i);
  }
  return pairs;
}

/** Layout with one disc per class, the discs on a circle. */
function inBlocks(classes, first, blocks) {
  const [x, y] = [new Float64Array(classes.length), new Float64Array(classes.length)];
  const reach = blocks === 1 ? 0 : 0.5 / (1 + Math.sin(Math.PI / blocks));
  const size = blocks === 1 ? 0.48 : 0.88 * reach * Math.sin(Math.PI / blocks);
  classes.forEach((c, i) => {
    const [k, all] = [i - first[c] + 0.5, first[c + 1] - first[c]];
    const [far, turn] = [size * Math.sqrt(k / all), 2.399963 * k]; // golden angle
    const angle = Math.PI + (2 * Math.PI * c) / blocks; // the first disc is on the left
    x[i] = 0.5 + reach * Math.cos(angle) + far * Math.cos(turn);
    y[i] = 0.5 + reach * Math.sin(angle) + far * Math.sin(turn);
  });
  return [x, y];
}

/** Force-directed layout (Fruchterman and Reingold, 1991). */
function layout(count, pairs) {
  const random = randomOf(1);
  const x = Float64Array.from({ length: count }, random);
  const y = Float64Array.from({ length: count }, random);
  const apart = 0.9 / Math.sqrt(count);
  const turns = count <= 500 ? 300 : count <= 3000 ? 120 : 60;
  for (let turn = 0; turn < turns; turn += 1) {
    const [fx, fy] = [new Float64Array(count), new Float64Array(count)];
    pushApart(x, y, fx, fy, apart, count <= 1500 ? Infinity : 3 * apart);
    for (let e = 0; e < pairs.length; e += 2) {
      const [a, b] = [pairs[e], pairs[e + 1]];
      const [dx, dy] = [x[a] - x[b], y[a] - y[b]];
      const pull = Math.sqrt(dx * dx + dy * dy) / apart;
      fx[a] -= dx * pull;
      fy[a] -= dy * pull;
      fx[b] += dx * pull;
      fy[b] += dy * pull;
    }
    const heat = 0.1 * (1 - turn / turns);
    for (let i = 0; i < count; i += 1) {
      fx[i] -= 0.3 * (x[i] - 0.5); // keeps components together
      fy[i] -= 0.3 * (y[i] - 0.5);
      const force = Math.hypot(fx[i], fy[i]) || 1;
      const step = Math.min(force, heat);
      x[i] += (fx[i] / force) * step;
      y[i] += (fy[i] / force) * step;
    }
  }
  return [stretched(x), stretched(y)];
}

function pushApart(x, y, fx, fy, apart, reach) {
  const push = (i, j) => {
    const [dx, dy] = [x[i] - x[j], y[i] - y[j]];
    const square = dx * dx + dy * dy + 1e-9;
    if (square > reach * reach) return;
    const force = (apart * apart) / square;
    fx[i] += dx * force;
    fy[i] += dy * force;
    fx[j] -= dx * force;
    fy[j] -= dy * force;
  };
  if (reach === Infinity) {
    for (let i = 0; i < x.length; i += 1) for (let j = 0; j < i; j += 1) push(i, j);
    return;
  }
  const near = closePairs(stretched(x), stretched(y), Math.min(0.5, reach));
  for (let e = 0; e < near.length; e += 2) push(near[e], near[e + 1]);
}

/** Positions rescaled to [0.03, 0.97]. */
function stretched(places) {
  let [low, high] = [Infinity, -Infinity];
  for (const place of places) [low, high] = [Math.min(low, place), Math.max(high, place)];
  const wide = high - low || 1;
  return places.map((place) => 0.03 + (0.94 * (place - low)) / wide);
}

/** Edge homophily: share of edges between nodes of the same class. */
function homophilyOf({ pairs, classes }) {
  if (pairs.length === 0) return NaN;
  let same = 0;
  for (let e = 0; e < pairs.length; e += 2) if (classes[pairs[e]] === classes[pairs[e + 1]]) same += 1;
  return (2 * same) / pairs.length;
}
