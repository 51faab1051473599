// A chart: legend, panels, and a slider over time.

const tooltip = html("div", { id: "tooltip", role: "status", hidden: true });

document.addEventListener("pointerdown", ({ target }) => target.closest(".drawing") || tell(null));
document.addEventListener("scroll", () => tell(null), { passive: true });

function tell(found, event) {
  if (!found) {
    tooltip.hidden = true;
    return;
  }
  tooltip.replaceChildren(
    found.title ? html("div", { class: "title" }, found.title) : "",
    ...found.lines.map((line) =>
      html(
        "div",
        { class: line.near ? "near" : "" },
        html("i", { style: line.colour ? `background:${ink(line.colour)}` : "display:none" }),
        html("span", {}, line.label),
        html("b", {}, line.text),
      ),
    ),
  );
  tooltip.hidden = false;
  const [wide, high] = [tooltip.offsetWidth, tooltip.offsetHeight];
  const left = event.clientX + 16 + wide > innerWidth ? event.clientX - wide - 12 : event.clientX + 16;
  const top = Math.min(event.clientY + 12, innerHeight - high - 8);
  tooltip.style.transform = `translate(${Math.max(4, left)}px, ${Math.max(4, top)}px)`;
}

/** Legend symbol of a series. */
function key(series) {
  const mark = svg("svg", { class: "key", width: 26, height: 12, "aria-hidden": "true", style: `--ink:${ink(series.colour)}` });
  if (series.mark === "line" && series.width > 0) {
    mark.append(svg("path", { class: "stroke", d: "M1 6H25", "stroke-width": 2, "stroke-dasharray": series.dashed ? "6 3" : null }));
    if (MARKERS[series.marker]) mark.append(svg("path", { class: "marker", d: MARKERS[series.marker], transform: "translate(13 6)" }));
  } else if (series.mark === "points") {
    mark.append(svg("circle", { cx: 13, cy: 6, r: 4 }));
  } else {
    mark.append(svg("rect", { x: 5, y: 1, width: 16, height: 10, opacity: series.width > 0 ? 1 : 0.25 }));
  }
  return mark;
}

/** Unique labels, each with its first series. */
function labels(panels) {
  const found = new Map();
  for (const series of panels.flatMap((panel) => panel.series)) {
    if (series.label && !found.has(series.label)) found.set(series.label, series);
  }
  return found;
}

/** Whether a panel has no data, only a remark. */
function blank(panel) {
  return panel.remark !== "" && !panel.image && panel.series.every((series) => series.x.length === 0);
}

const CROWD = 14; // with more labels, every row of panels has its own legend

class ChartView {
  constructor(chart) {
    this.chart = chart;
    this.hidden = new Set();
    this.boxes = [];
    const axed = chart.panels.some((panel) => !panel.x.hidden);
    this.root = html("div", { class: axed ? "drawn axed" : "drawn" });
    const all = labels(chart.panels);
    const crowded = all.size > CROWD;
    if (!crowded) this.root.append(this.legend(all));
    const rows = [];
    for (let k = 0; k < chart.panels.length; k += chart.columns) rows.push(chart.panels.slice(k, k + chart.columns));
    const grid = () => html("div", { class: "panels", style: `--columns:${Math.min(chart.columns, chart.panels.length)}` });
    let place = grid();
    for (const row of rows) {
      if (crowded) {
        this.root.append(this.legend(labels(row)));
        place = grid();
      }
      row.filter((panel) => !blank(panel)).forEach((panel) => place.append(this.box(panel)));
      this.root.append(place);
    }
    const missing = chart.panels.filter(blank).map((panel) => panel.title).filter(Boolean);
    if (missing.length) this.root.append(html("p", { class: "note" }, `${chart.panels.find(blank).remark}: ${missing.join(", ")}`));
    const image = chart.panels.find((panel) => panel.image)?.image;
    if (image) this.root.append(colourBar(image));
    if (chart.frames.length) this.root.append(this.film());
    let width = 0;
    new ResizeObserver(([entry]) => {
      if (Math.abs(entry.contentRect.width - width) < 1) return;
      width = entry.contentRect.width;
      this.draw();
    }).observe(this.root);
  }

  /** Buttons that hide and show a series; with Shift, show only this series. */
  legend(entries) {
    const root = html("div", { class: "legend" });
    if (entries.size < 2) return root;
    for (const [label, series] of entries) {
      root.append(
        html(
          "button",
          {
            type: "button",
            "aria-pressed": "true",
            "data-label": label,
            title: "click to hide or show; Shift-click to show only this one",
            onclick: (event) => this.toggle(label, event.shiftKey, [...entries.keys()]),
          },
          key(series),
          label,
        ),
      );
    }
    root.append(html("button", { type: "button", class: "all", hidden: true, onclick: () => this.show([...entries.keys()]) }, "show all"));
    return root;
  }

  toggle(label, alone, among) {
    if (alone) among.forEach((other) => this.hidden.add(other));
    if (this.hidden.has(label)) this.hidden.delete(label);
    else this.hidden.add(label);
    this.draw();
  }

  show(among) {
    among.forEach((label) => this.hidden.delete(label));
    this.draw();
  }

  /** Container of a panel with its pointer handlers. */
  box(panel) {
    const place = html("div", { class: "drawing" });
    const box = { panel, place, find: () => null };
    const point = (event) => {
      const { left, top } = place.getBoundingClientRect();
      tell(box.find(event.clientX - left, event.clientY - top), event);
    };
    const leave = (event) => {
      if (event.pointerType === "touch") return; // keep the tooltip after a tap
      tell(null);
      place.querySelector(".pointed")?.replaceChildren();
    };
    place.addEventListener("pointermove", point);
    place.addEventListener("pointerdown", point);
    place.addEventListener("pointerleave", leave);
    this.boxes.push(box);
    const row = panel.y.hidden ? panel.y.label : ""; // without an axis, the label is part of the caption
    const caption = [row, panel.title].filter(Boolean).join(", ");
    return html("figure", { class: "panel" }, caption ? html("figcaption", {}, caption) : null, place);
  }

  draw() {
    for (const button of this.root.querySelectorAll(".legend button[data-label]")) {
      button.setAttribute("aria-pressed", String(!this.hidden.has(button.dataset.label)));
    }
    for (const all of this.root.querySelectorAll(".legend .all")) all.hidden = this.hidden.size === 0;
    this.boxes.forEach((box) => this.drawBox(box));
  }

  drawBox(box) {
    const width = Math.floor(box.place.clientWidth);
    if (width < 40) return;
    const { root, find } = drawPanel(box.panel, width, {
      hidden: this.hidden,
      single: this.chart.panels.length === 1,
      named: this.outermost(box),
      tall: this.chart.tall,
    });
    box.find = find;
    box.place.replaceChildren(root);
  }

  /** Axes of a panel that have a label: those at the edge of the chart in the current layout. */
  outermost({ panel, place }) {
    const grid = place.closest(".panels");
    const columns = getComputedStyle(grid).gridTemplateColumns.split(" ").length;
    const row = this.boxes.filter((other) => other.place.closest(".panels") === grid);
    const at = row.findIndex((other) => other.place === place);
    const label = (k, side) => row[k]?.panel[side].label;
    return {
      x: label(at + columns, "x") !== panel.x.label,
      y: at % columns === 0 || label(at - 1, "y") !== panel.y.label,
    };
  }

  /** A slider over the frames that animates the points between them. */
  film() {
    const { frames } = this.chart;
    const boxes = frames[0].panels.map((panel) => {
      const title = panel.title === frames[0].label ? "" : panel.title;
      const figure = this.box({ ...panel, title, y: { ...panel.y, label: "" } });
      return { figure, box: this.boxes[this.boxes.length - 1] };
    });
    const label = html("output", {}, frames[0].label);
    let shown = 0;
    let ticking = 0;
    const go = (next) => {
      label.textContent = frames[next].label;
      slider.value = next;
      const [from, to] = [frames[shown], frames[next]];
      shown = next;
      cancelAnimationFrame(ticking);
      const still = matchMedia("(prefers-reduced-motion: reduce)").matches || to.panels[0].image;
      const start = performance.now();
      const move = (now) => {
        const share = still ? 1 : Math.min(1, (now - start) / 350);
        boxes.forEach(({ box }, k) => {
          box.panel = share === 1 ? to.panels[k] : between(from.panels[k], to.panels[k], share * share * (3 - 2 * share));
          this.drawBox(box);
        });
        if (share < 1) ticking = requestAnimationFrame(move);
      };
      move(start);
    };
    const slider = html("input", {
      type: "range", min: 0, max: frames.length - 1, step: 1, value: 0, "aria-label": "time",
      oninput: () => go(Number(slider.value)),
    });
    let playing = null;
    const play = html("button", { type: "button", class: "play", onclick: () => (playing ? stop() : begin()) }, "▶ play");
    const stop = () => {
      clearInterval(playing);
      playing = null;
      play.textContent = "▶ play";
    };
    const begin = () => {
      if (shown === frames.length - 1) go(0);
      play.textContent = "■ stop";
      playing = setInterval(() => (shown + 1 < frames.length ? go(shown + 1) : stop()), 650);
    };
    return html(
      "div",
      { class: "film" },
      html("h3", {}, "Over time"),
      html("div", { class: "slider" }, play, slider, label),
      html("div", { class: "panels", style: `--columns:${boxes.length}` }, ...boxes.map(({ figure }) => figure)),
    );
  }
}

/** Interpolate the points of two panels, each scaled to its own range. */
function between(from, to, share) {
  const fits = from.series.length === to.series.length;
  if (!fits) return to;
  const span = (panel, side) => ends(panel.series.flatMap((series) => series[side]), false);
  const moved = (side) => {
    const [[a, b], [c, d]] = [span(from, side), span(to, side)];
    return to.series.map((series, k) =>
      series[side].map((value, n) => {
        const before = (from.series[k][side][n] - a) / (b - a);
        return before + share * ((value - c) / (d - c) - before);
      }),
    );
  };
  const [xs, ys] = [moved("x"), moved("y")];
  const whole = (axis) => ({ ...axis, limits: [0, 1] });
  return { ...to, x: whole(to.x), y: whole(to.y), series: to.series.map((series, k) => ({ ...series, x: xs[k], y: ys[k] })) };
}

function colourBar(image) {
  const stops = [...Array(9).keys()].map((k) => `rgb(${magma(k / 8)})`).join(",");
  return html(
    "div",
    { class: "colours" },
    html("span", {}, number(Number(image.low.toPrecision(2)))),
    html("i", { style: `background:linear-gradient(90deg,${stops})` }),
    html("span", {}, number(Number(image.high.toPrecision(2)))),
    html("span", { class: "what" }, image.label),
  );
}
