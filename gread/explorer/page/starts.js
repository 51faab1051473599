// Initial states h(0) of every channel.

const STARTS = {
  noise: {
    title: "noise",
    make: ({ graph, normal }) => Float64Array.from({ length: graph.count }, () => 0.5 + 0.3 * normal()),
  },
  signed: {
    title: "noise around zero",
    make: ({ graph, normal }) => Float64Array.from({ length: graph.count }, () => 0.5 * normal()),
  },
  classes: {
    title: "class-dependent features",
    make({ graph, normal, random }) {
      const means = [...Array(Math.max(2, ...graph.classes) + 1).keys()].map((c) => (c < 2 ? 2 * c - 1 : random() < 0.5 ? -1 : 1));
      return Float64Array.from(graph.classes, (c) => 0.5 * means[c] + 0.5 * normal());
    },
  },
  letter: {
    title: "noisy letter (Figure 1)",
    make({ graph, normal }) {
      return Float64Array.from({ length: graph.count }, (_, i) => {
        const [x, y] = [2 * graph.x[i] - 1, 1 - 2 * graph.y[i]];
        const [radius, angle] = [Math.hypot(x, y), Math.atan2(y, x)];
        const ring = radius > 0.5 && radius < 0.82 && !(angle > 0 && angle < 0.75);
        const bar = x > 0.1 && radius < 0.82 && y < 0 && y > -0.3;
        return (ring || bar ? 1 : 0) + 0.3 * normal();
      });
    },
  },
  spot: {
    title: "a spot in the middle",
    make: ({ graph }) =>
      Float64Array.from({ length: graph.count }, (_, i) => ((graph.x[i] - 0.5) ** 2 + (graph.y[i] - 0.5) ** 2 < 0.0064 ? 1 : 0)),
  },
  empty: {
    title: "empty: paint it yourself",
    make: ({ graph }) => new Float64Array(graph.count),
  },
};

/** h(0) of every channel; a channel does not depend on the number of channels. */
function startOf(name, graph, channels, seed) {
  return [...Array(channels).keys()].map((channel) => {
    const random = randomOf(1000 * (seed + 1) + channel);
    return STARTS[name].make({ graph, random, normal: normalOf(random) });
  });
}

/** Apply a brush stroke to a channel: nodes within its radius get its value. */
function painted(graph, h, { x, y, reach, value }) {
  const out = Float64Array.from(h);
  for (let i = 0; i < graph.count; i += 1) {
    if ((graph.x[i] - x) ** 2 + (graph.y[i] - y) ** 2 <= reach * reach) out[i] = value;
  }
  return out;
}
