// Nodes as pixels. The node of each pixel is computed once and a frame only fills in colours, so ten thousand
// nodes take a millisecond. The same table gives the node under the pointer.

// Nine colours each, from low to high: Matplotlib's magma, viridis and cividis, and a diverging palette.
const PALETTES = {
  magma: MAGMA,
  viridis: [
    [68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141],
    [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37],
  ],
  cividis: [
    [0, 34, 78], [31, 55, 108], [67, 78, 108], [94, 102, 110], [124, 123, 120],
    [154, 146, 119], [186, 171, 110], [220, 197, 94], [254, 232, 56],
  ],
  "blue-orange": [
    [0, 62, 125], [23, 108, 179], [94, 158, 211], [172, 205, 233], [242, 242, 240],
    [247, 201, 160], [240, 149, 82], [208, 93, 19], [138, 51, 0],
  ],
};

/** A palette as 256 pixel values without alpha. */
function paletteOf(name) {
  const marks = PALETTES[name];
  return Uint32Array.from({ length: 256 }, (_, k) => {
    const place = (k / 255) * (marks.length - 1);
    const first = Math.min(marks.length - 2, Math.floor(place));
    const [r, g, b] = marks[first].map((part, side) => Math.round(part + (place - first) * (marks[first + 1][side] - part)));
    return (b << 16) | (g << 8) | r;
  });
}

const DRAWN_EDGES = 40000;

/** Median distance to the nearest other node, from a sample of the nodes. */
function spacing({ count, x, y }) {
  const every = Math.max(1, Math.floor(count / 150));
  const found = [];
  for (let i = 0; i < count; i += every) {
    let near = 2;
    for (let j = 0; j < count; j += 1) if (j !== i) near = Math.min(near, (x[i] - x[j]) ** 2 + (y[i] - y[j]) ** 2);
    found.push(Math.sqrt(near));
  }
  return found.sort((a, b) => a - b)[Math.floor(found.length / 2)];
}

class Stage {
  /** @param name label for screen readers */
  constructor(name) {
    this.below = html("canvas", { "aria-hidden": "true" });
    this.canvas = html("canvas", { role: "img", tabindex: "0", "aria-label": name });
    this.ring = html("i", { class: "brush", hidden: true });
    this.root = html("div", { class: "stage" }, this.below, this.canvas, this.ring);
  }

  /** Prepare a graph for drawing at a size in CSS pixels. */
  place(graph, size) {
    const scale = Math.min(2, devicePixelRatio || 1);
    const wide = Math.max(40, Math.round(size * scale));
    this.graph = graph;
    this.size = size;
    for (const canvas of [this.below, this.canvas]) {
      canvas.width = canvas.height = wide;
      canvas.style.width = canvas.style.height = `${size}px`;
    }
    this.context = this.canvas.getContext("2d");
    this.image = this.context.createImageData(wide, wide);
    this.pixels = new Uint32Array(this.image.data.buffer);
    const margin = graph.kind === "cells" ? 0 : 10 * scale;
    this.inner = { margin, wide: wide - 2 * margin, scale };
    const radius = Math.min(12, Math.max(2.2, 0.54 * size * spacing(graph))) * scale;
    this.owners(graph, wide, radius);
    this.edges(graph, scale);
  }

  /** List the covered pixels, the node of each, and the fraction covered. */
  owners(graph, wide, radius) {
    this.owner = new Int32Array(wide * wide).fill(-1);
    const cover = new Uint8Array(wide * wide);
    const put = (px, py, node, share) => {
      if (px < 0 || py < 0 || px >= wide || py >= wide) return;
      const at = py * wide + px;
      if (share < 128 && cover[at] > share) return;
      this.owner[at] = node;
      cover[at] = Math.max(share, cover[at]);
    };
    for (let i = 0; i < graph.count; i += 1) {
      const [x, y] = this.at(graph.x[i], graph.y[i]);
      if (graph.kind === "cells") {
        const edge = (k) => Math.round((k / graph.side) * wide);
        const [column, row] = [i % graph.side, Math.floor(i / graph.side)];
        for (let py = edge(row); py < edge(row + 1); py += 1)
          for (let px = edge(column); px < edge(column + 1); px += 1) put(px, py, i, 255);
        continue;
      }
      for (let py = Math.floor(y - radius - 1); py <= y + radius + 1; py += 1) {
        for (let px = Math.floor(x - radius - 1); px <= x + radius + 1; px += 1) {
          const share = Math.min(1, Math.max(0, radius + 0.5 - Math.hypot(px + 0.5 - x, py + 0.5 - y)));
          if (share > 0) put(px, py, i, Math.round(255 * share));
        }
      }
    }
    const covered = [];
    this.owner.forEach((node, at) => node >= 0 && covered.push(at));
    this.covered = Int32Array.from(covered);
    this.alpha = Uint32Array.from(covered, (at) => cover[at] << 24);
    this.whose = Int32Array.from(covered, (at) => this.owner[at]);
  }

  /** Map [0, 1]² to pixels. */
  at(x, y) {
    return [this.inner.margin + x * this.inner.wide, this.inner.margin + y * this.inner.wide];
  }

  edges(graph, scale) {
    const context = this.below.getContext("2d");
    context.clearRect(0, 0, this.below.width, this.below.height);
    const count = graph.weights.length;
    if (graph.kind === "cells" || count > DRAWN_EDGES) return;
    context.strokeStyle = getComputedStyle(this.root).color; // the colour of edges
    context.globalAlpha = Math.min(0.55, Math.max(0.06, 90 / Math.sqrt(count) / 10));
    context.lineWidth = Math.min(1.4, Math.max(0.5, 30 / Math.sqrt(count))) * scale;
    context.beginPath();
    for (let e = 0; e < count; e += 1) {
      context.moveTo(...this.at(graph.x[graph.pairs[2 * e]], graph.y[graph.pairs[2 * e]]));
      context.lineTo(...this.at(graph.x[graph.pairs[2 * e + 1]], graph.y[graph.pairs[2 * e + 1]]));
    }
    context.stroke();
  }

  /** Draw all nodes, given their colours as pixel values without alpha. */
  fill(colours) {
    const { pixels, covered, alpha, whose } = this;
    for (let k = 0; k < covered.length; k += 1) pixels[covered[k]] = alpha[k] | colours[whose[k]];
    this.context.putImageData(this.image, 0, 0);
  }

  /** Draw the state of one channel with a colour range from ``low`` to ``high``. */
  show(h, palette, [low, high]) {
    this.colours ??= new Uint32Array(h.length);
    if (this.colours.length !== h.length) this.colours = new Uint32Array(h.length);
    const factor = 255 / (high - low || 1);
    for (let i = 0; i < h.length; i += 1) {
      const place = (h[i] - low) * factor;
      this.colours[i] = palette[place > 0 ? (place < 255 ? place | 0 : 255) : 0];
    }
    this.fill(this.colours);
  }

  /** Position of a pointer in [0, 1]², and the node under it or −1. */
  under(event) {
    const box = this.canvas.getBoundingClientRect();
    const { margin, wide, scale } = this.inner;
    const [px, py] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const column = Math.round(px - 0.5);
    const row = Math.round(py - 0.5);
    const inside = column >= 0 && row >= 0 && column < this.canvas.width && row < this.canvas.height;
    return { x: (px - margin) / wide, y: (py - margin) / wide, node: inside ? this.owner[row * this.canvas.width + column] : -1 };
  }
}
