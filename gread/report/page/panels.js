// One panel of a chart as SVG, with its tooltips.

const MARKERS = {
  o: "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",
  s: "M-2.7-2.7h5.4v5.4h-5.4z",
  "^": "M0-3.6L3.3 2.7H-3.3z",
  v: "M0 3.6L3.3-2.7H-3.3z",
  D: "M0-3.8L3.4 0L0 3.8L-3.4 0z",
  P: "M-1.2-3.4h2.4v2.2h2.2v2.4h-2.2v2.2h-2.4v-2.2h-2.2v-2.4h2.2z",
  X: "M-3-3L-1.5-3L0-1.3L1.5-3L3-3L1.2 0L3 3L1.5 3L0 1.3L-1.5 3L-3 3L-1.2 0z",
};

// Matplotlib's magma at multiples of 1/8.
const MAGMA = [
  [0, 0, 4], [29, 17, 71], [81, 18, 124], [131, 38, 129], [183, 55, 121],
  [230, 81, 99], [252, 136, 97], [254, 194, 135], [252, 253, 191],
];

/** Colour of a value in [0, 1]. */
function magma(share) {
  const place = Math.min(1, Math.max(0, share)) * (MAGMA.length - 1);
  const first = Math.min(MAGMA.length - 2, Math.floor(place));
  return MAGMA[first].map((part, k) => Math.round(part + (place - first) * (MAGMA[first + 1][k] - part)));
}

let clips = 0;

/**
 * Draw a panel.
 *
 * @param panel panel of a chart
 * @param width in pixels
 * @param options hidden: labels that are turned off; single: whether it is the only panel; named: axes
 *   that have a label; tall: height in pixels, if the chart sets it
 * @returns the element, and find(x, y), which returns the tooltip of the nearest point
 */
function drawPanel(panel, width, { hidden, single, named, tall: wanted }) {
  const square = panel.image !== null || (panel.x.hidden && panel.y.hidden);
  const height = wanted ?? Math.round(square ? width : single ? Math.min(0.56 * width, 460) + 40 : 0.7 * width + 34);
  const visible = panel.series.filter((series) => !hidden.has(series.label));
  const atEnds = single && width > 560 && visible.some((s) => s.mark === "line" && s.label);
  const tall = panel.x.ticks.some(([, text]) => text.length > 4);
  const box = square
    ? { left: 1, right: width - 1, top: 1, bottom: height - 1 }
    : {
        left: panel.y.label && named.y ? 58 : 44,
        right: width - (atEnds ? 92 : 10),
        top: 8,
        bottom: height - (tall ? 74 : 24) - (panel.x.label && named.x ? 18 : 0),
      };
  const all = panel.series.flatMap((s) => s.x);
  const heights = visible.flatMap((s) => [...s.y, ...s.low, ...s.high]);
  const x = scale(panel.x, all, [box.left, box.right]);
  const upright = visible.some((s) => s.mark === "bars") && !panel.y.limits && heights.every((value) => value >= 0);
  const y = scale(upright ? { ...panel.y, limits: [0, Math.max(...heights) * 1.05 || 1] } : panel.y, heights, [box.bottom, box.top]);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
  root.setAttribute("aria-label", [panel.title, panel.y.label, panel.x.label && `by ${panel.x.label}`].filter(Boolean).join(", "));
  if (panel.image) {
    root.append(picture(panel.image, box));
    return { root, find: (px, py) => pixel(panel.image, box, px, py) };
  }
  if (!square && all.length) root.append(axes(panel, box, x, y, tall, named));
  const clip = `clip-${(clips += 1)}`;
  root.append(
    svg("clipPath", { id: clip }, svg("rect", { x: box.left - 4, y: box.top - 4, width: box.right - box.left + 8, height: box.bottom - box.top + 8 })),
  );
  const inside = svg("g", { "clip-path": `url(#${clip})` });
  const crowd = panel.series.reduce((sum, series) => sum + series.x.length, 0);
  for (const series of [...visible].reverse()) inside.append(DRAW[series.mark](series, x, y, crowd, box));
  root.append(inside);
  if (atEnds) root.append(names(visible, x, y, box));
  if (panel.remark) {
    root.append(svg("text", { class: "remark", x: width / 2, y: height / 2, "text-anchor": "middle" }, panel.remark));
  }
  const pointed = svg("g", { class: "pointed" });
  root.append(pointed);
  return { root, find: (px, py) => nearest(panel, visible, x, y, box, pointed, px, py) };
}

function axes(panel, box, x, y, tall, named) {
  const group = svg("g", { class: "axes" });
  for (const { at, text } of y.ticks) {
    group.append(
      svg("line", { class: "grid", x1: box.left, x2: box.right, y1: at, y2: at }),
      svg("text", { x: box.left - 6, y: at + 4, "text-anchor": "end" }, text),
    );
  }
  for (const { at, text } of x.ticks) {
    const place = tall
      ? { transform: `translate(${at + 4} ${box.bottom + 8}) rotate(-90)`, "text-anchor": "end" }
      : { x: at, y: box.bottom + 16, "text-anchor": "middle" };
    group.append(svg("text", place, text));
  }
  group.append(svg("line", { class: "base", x1: box.left, x2: box.right, y1: box.bottom, y2: box.bottom }));
  if (panel.x.label && named.x) {
    const place = { class: "label", x: (box.left + box.right) / 2, y: box.bottom + 35, "text-anchor": "middle" };
    group.append(svg("text", place, panel.x.label));
  }
  if (panel.y.label && named.y) {
    const middle = (box.top + box.bottom) / 2;
    group.append(svg("text", { class: "label", transform: `translate(12 ${middle}) rotate(-90)`, "text-anchor": "middle" }, panel.y.label));
  }
  return group;
}

/** Path through the points, interrupted at missing values. */
function through(xs, ys, x, y) {
  let path = "";
  let pen = "M";
  xs.forEach((value, k) => {
    const [px, py] = [x(value), y(ys[k])];
    if (px === null || py === null) {
      pen = "M";
      return;
    }
    path += `${pen}${px.toFixed(1)} ${py.toFixed(1)}`;
    pen = "L";
  });
  return path;
}

const DRAW = {
  line(series, x, y) {
    const group = svg("g", { class: "line", "data-label": series.label, style: `--ink:${ink(series.colour)}` });
    if (series.low.length) {
      const there = through(series.x, series.high, x, y);
      const back = through([...series.x].reverse(), [...series.low].reverse(), x, y);
      if (there && back) group.append(svg("path", { class: "band", d: `${there}L${back.slice(1)}Z` }));
    }
    if (series.width > 0) {
      const dash = series.dashed ? "6 3" : null;
      group.append(
        svg("path", { class: "stroke", d: through(series.x, series.y, x, y), "stroke-width": series.width * 1.2, "stroke-dasharray": dash }),
      );
    }
    if (MARKERS[series.marker]) {
      series.x.forEach((value, k) => {
        const [px, py] = [x(value), y(series.y[k])];
        if (px !== null && py !== null) {
          group.append(svg("path", { class: "marker", d: MARKERS[series.marker], transform: `translate(${px.toFixed(1)} ${py.toFixed(1)})` }));
        }
      });
    }
    return group;
  },
  points(series, x, y, crowd) {
    const size = Math.min(7, Math.max(3.2, 110 / Math.sqrt(crowd)));
    const dots = series.x.map((value, k) => `M${x(value).toFixed(1)} ${y(series.y[k]).toFixed(1)}h0`).join("");
    return svg("path", { class: "points", "data-label": series.label, style: `--ink:${ink(series.colour)}`, d: dots, "stroke-width": size });
  },
  bars(series, x, y, crowd, box) {
    const group = svg("g", { class: "bars", "data-label": series.label, style: `--ink:${ink(series.colour)}` });
    const sorted = [...series.x].sort((a, b) => a - b);
    const apart = sorted.slice(1).map((value, k) => value - sorted[k]);
    const width = apart.length < 3 ? 0.8 : 0.94 * apart.reduce((a, b) => Math.min(a, b));
    series.x.forEach((value, k) => {
      const [left, right] = [x(value - width / 2), x(value + width / 2)];
      const top = y(series.y[k]);
      const floor = Math.min(box.bottom, y(0));
      group.append(svg("rect", { x: left, width: right - left, y: Math.min(top, floor), height: Math.abs(floor - top) }));
      if (series.low.length) {
        const middle = (left + right) / 2;
        group.append(svg("path", { class: "whisker", d: `M${middle} ${y(series.low[k])}V${y(series.high[k])}` }));
      }
    });
    return group;
  },
};

/** Labels at the ends of lines, moved apart if they overlap. */
function names(visible, x, y, box) {
  const found = [];
  for (const series of visible) {
    const last = series.x.length - 1;
    if (series.mark !== "line" || !series.label || last < 0) continue;
    const [px, py] = [x(series.x[last]), y(series.y[last])];
    if (px >= box.right - 2 && py !== null && py <= box.bottom + 1) found.push({ series, at: Math.max(py, box.top) });
  }
  found.sort((a, b) => a.at - b.at);
  for (let turn = 0; turn < 200; turn += 1) {
    for (let k = 1; k < found.length; k += 1) {
      const lack = Math.max(0, 15 - (found[k].at - found[k - 1].at)) / 2;
      found[k].at = Math.min(found[k].at + lack, box.bottom);
      found[k - 1].at = Math.max(found[k - 1].at - lack, box.top);
    }
  }
  return svg(
    "g",
    { class: "names" },
    ...found.map(({ series, at }) => svg("text", { x: box.right + 7, y: at + 4, style: `--ink:${ink(series.colour)}` }, series.label)),
  );
}

/** Image with one pixel per value. */
function picture(image, box) {
  const [rows, columns] = [image.rows.length, image.rows[0].length];
  const canvas = html("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  image.rows.flat().forEach((value, k) => {
    pixels.data.set([...magma((value - image.low) / (image.high - image.low)), 255], 4 * k);
  });
  context.putImageData(pixels, 0, 0);
  return svg("image", {
    href: canvas.toDataURL(),
    x: box.left,
    y: box.top,
    width: box.right - box.left,
    height: box.bottom - box.top,
    preserveAspectRatio: "none",
    style: "image-rendering: pixelated",
  });
}

function pixel(image, box, px, py) {
  const row = Math.floor(((py - box.top) / (box.bottom - box.top)) * image.rows.length);
  const column = Math.floor(((px - box.left) / (box.right - box.left)) * image.rows[0].length);
  const value = image.rows[row]?.[column];
  if (value === undefined) return null;
  return { title: `row ${row + 1}, column ${column + 1}`, lines: [{ label: image.label, text: number(value) }] };
}

const LISTED = 12; // largest number of lines in a tooltip

/** Tooltip of the nearest point, with the other lines at the same x. */
function nearest(panel, visible, x, y, box, pointed, px, py) {
  pointed.replaceChildren();
  const flat = visible.some((series) => series.mark === "bars") ? 0.02 : 1; // bars are selected by x
  const drawn = (series) => series.width > 0 || series.mark !== "line";
  let best = null;
  visible.filter(drawn).forEach((series) => {
    series.x.forEach((value, k) => {
      const [cx, cy] = [x(value), y(series.y[k])];
      if (cx === null || cy === null) return;
      const far = (4 * (cx - px)) ** 2 * (series.mark === "points" ? 1 / 16 : 1) + flat * (cy - py) ** 2;
      if (!best || far < best.far) best = { far, series, k, cx, cy };
    });
  });
  if (!best) return null;
  const at = best.series.x[best.k];
  const named = panel.x.ticks.find(([value]) => value === at);
  if (best.series.mark === "points") {
    if (best.far > 400) return null;
    pointed.append(svg("circle", { cx: best.cx, cy: best.cy, r: 6 }));
    return { title: "", lines: [{ label: best.series.label, colour: best.series.colour, text: "" }] };
  }
  const others = visible.filter(drawn).flatMap((series) => {
    const k = series.x.indexOf(at);
    return k < 0 || series.y[k] === null ? [] : [{ series, k }];
  });
  const several = new Set(others.map(({ series }) => series.label)).size === others.length && others.length > 1;
  const shown = several ? others.sort((a, b) => b.series.y[b.k] - a.series.y[a.k]) : [best];
  if (best.series.mark === "line") {
    pointed.append(svg("line", { x1: best.cx, x2: best.cx, y1: box.top, y2: box.bottom }));
  }
  const top = Math.min(box.bottom, Math.max(box.top, best.cy));
  pointed.append(svg("circle", { cx: best.cx, cy: top, r: 4.5, style: `--ink:${ink(best.series.colour)}` }));
  return {
    title: named ? named[1] : `${panel.x.label} ${number(at)}`.trim(),
    lines: trimmed(shown, best).map(({ series, k }) => ({
      label: series.label || panel.y.label,
      colour: series.colour,
      text: number(series.y[k]) + (series.low.length ? ` (${number(series.low[k])} to ${number(series.high[k])})` : ""),
      near: series === best.series && several,
    })),
  };
}

/** The entries around the nearest one that fit into a tooltip. */
function trimmed(shown, best) {
  const middle = shown.findIndex(({ series }) => series === best.series);
  const first = Math.min(Math.max(0, middle - LISTED / 2), Math.max(0, shown.length - LISTED));
  return shown.slice(first, first + LISTED);
}
