// Stored results next to the paper's numbers.

class Leaderboard {
  constructor(settings, changed) {
    this.settings = settings;
    this.changed = changed;
    const { rows, datasets } = DATA.leaderboard;
    const take = (values) => {
      Object.assign(this.settings, values);
      this.draw();
      this.changed();
    };
    this.search = html("input", {
      type: "search",
      placeholder: "GREAD, GCN …",
      oninput: () => take({ filter: this.search.value.slice(0, 100) }),
    });
    this.group = choiceControl(
      "group",
      [["", "all"], ...[...new Set(rows.map(({ group }) => group))].map((name) => [name, name])],
      (group) => take({ group }),
    );
    this.dataset = choiceControl("dataset", [["", "all"], ...datasets.map(({ name, title }) => [name, title])], (dataset) =>
      take({ dataset }),
    );
    this.table = html("div");
    this.plots = html("div", { class: "dotplots" });
    this.count = html("p", { class: "note", role: "status" });
    this.root = html(
      "div",
      { class: "leaderboard" },
      html("div", { class: "choices" }, labelled("model name contains", this.search), this.group.root, this.dataset.root),
      this.count,
      this.table,
      html("h2", {}, "By dataset"),
      html(
        "div",
        { class: "keys" },
        html("span", {}, html("i", { style: `background:${ink("#D55E00")}` }), "ours, with standard deviation"),
        html("span", {}, html("i", { class: "hollow" }), "paper"),
      ),
      this.plots,
      html("p", { class: "note" }, DATA.leaderboard.note),
    );
  }

  open(settings) {
    this.settings = settings;
    this.search.value = settings.filter;
    this.group.sync(settings.group);
    this.dataset.sync(settings.dataset);
    this.draw();
  }

  draw() {
    const { filter, group, dataset } = this.settings;
    const { rows, datasets } = DATA.leaderboard;
    const columns = datasets.filter(({ name }) => !dataset || name === dataset);
    const wanted = filter.toLowerCase();
    const shown = rows.filter(
      (row) => row.model.toLowerCase().includes(wanted) && (!group || row.group === group) && columns.some(({ name }) => row.cells[name]),
    );
    this.count.textContent = `${shown.length} of ${rows.length} models. Test accuracy in percent; click a column to sort.`;
    this.table.replaceChildren(drawTable(tableOf(shown, columns)));
    this.keepSorted();
    this.table.querySelector(".scroll").setAttribute("role", "region");
    this.table.querySelector(".scroll").setAttribute("aria-label", "accuracies");
    this.plots.replaceChildren(...columns.map((column) => dotPlot(column, shown)));
  }

  /** Sort in the order of the link, and write later changes of the order to the link. */
  keepSorted() {
    const heads = [...this.table.querySelectorAll("thead th")];
    const [wanted, way] = this.settings.sort.split(":");
    const head = heads.find(({ textContent }) => textContent === wanted);
    for (let turn = 0; head && turn < 2 && head.getAttribute("aria-sort") !== way; turn += 1) head.firstChild.click();
    this.table.querySelector("thead").addEventListener("click", () => {
      const sorted = heads.find((other) => other.getAttribute("aria-sort") !== "none");
      this.settings.sort = sorted ? `${sorted.textContent}:${sorted.getAttribute("aria-sort")}` : "";
      this.changed();
    });
  }
}

const printed = (found) =>
  found
    ? found
        .slice(0, 2)
        .map((part) => part.toFixed(2))
        .join(" ± ")
    : "";

/** Rows of our results, each above the paper's; rows with only the paper's numbers are marked. */
function tableOf(rows, columns) {
  const best = new Map(
    columns.map(({ name }) => [
      name,
      [
        ...new Set(
          rows
            .map((row) => row.cells[name])
            .filter(Boolean)
            .map((cell) => (cell.ours ?? cell.paper)[0].toFixed(2)),
        ),
      ].sort((a, b) => b - a),
    ]),
  );
  const place = (name, mean) => {
    const at = best.get(name).indexOf(mean.toFixed(2));
    return at >= 0 && at < 3 && rows.length > 3 ? at + 1 : null;
  };
  const found = [];
  for (const row of rows) {
    const ours = columns.some(({ name }) => row.cells[name]?.ours);
    const cell = (name) => {
      const value = ours ? row.cells[name]?.ours : row.cells[name]?.paper;
      return { text: value ? printed(value) : "missing", place: value ? place(name, value[0]) : null };
    };
    found.push([{ text: ours ? row.model : `${row.model} (paper)`, place: null }, ...columns.map(({ name }) => cell(name))]);
    if (ours && columns.some(({ name }) => row.cells[name]?.paper)) {
      found.push([
        { text: "– paper", place: null },
        ...columns.map(({ name }) => ({ text: printed(row.cells[name]?.paper), place: null })),
      ]);
    }
  }
  return { columns: ["model", ...columns.map(({ title }) => title)], rows: found };
}

/** Models of one dataset, best first: dots are our results, circles the paper's. */
function dotPlot({ name, title }, rows) {
  const models = rows.filter((row) => row.cells[name]).map((row) => ({ model: row.model, ...row.cells[name] }));
  models.sort((a, b) => (b.ours ?? b.paper)[0] - (a.ours ?? a.paper)[0]);
  const [width, row, left, right] = [360, 17, 104, 12];
  const height = models.length * row + 34;
  const numbers = models.flatMap(({ ours, paper }) =>
    [ours, paper].filter(Boolean).flatMap(([mean, spread = 0]) => [mean - spread, mean + spread]),
  );
  const x = scale({ log: false, limits: null, ticks: [] }, numbers, [left, width - right]);
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `accuracies on ${title}` });
  for (const { at, text } of x.ticks) {
    root.append(
      svg("line", { class: "grid", x1: at, x2: at, y1: 4, y2: height - 24 }),
      svg("text", { x: at, y: height - 8, "text-anchor": "middle" }, text),
    );
  }
  models.forEach(({ model, ours, paper }, k) => {
    const y = 14 + k * row;
    const said = [ours && `ours ${printed(ours)} over ${ours[2]} runs`, paper && `paper ${printed(paper)}`]
      .filter(Boolean)
      .join(", ");
    const line = svg(
      "g",
      { class: ours ? "ours" : "theirs" },
      svg("title", {}, `${model}: ${said}`),
      svg("rect", { class: "hit", x: 0, y: y - row / 2, width, height: row }),
    );
    line.append(svg("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, model));
    if (paper) line.append(svg("circle", { class: "paper", cx: x(paper[0]), cy: y, r: 3.6 }));
    if (ours)
      line.append(
        svg("path", { class: "spread", d: `M${x(ours[0] - ours[1])} ${y}H${x(ours[0] + ours[1])}` }),
        svg("circle", { class: "own", cx: x(ours[0]), cy: y, r: 4 }),
      );
    root.append(line);
  });
  return html("figure", {}, html("figcaption", {}, title), root);
}
