// A trained model: positions of the nodes over time, learned coefficients, and misclassified nodes.

const TINTS = { class: "class", prediction: "prediction at t" };

const PARTS = ["train", "val", "test", "none"];

const CLASS_INKS = ["#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444"];

class TrainedView {
  constructor(settings, changed) {
    this.settings = settings;
    this.changed = changed;
    this.known = new Map(DATA.portraits.map((portrait) => [portrait.key, portrait]));
    this.message = html("p", { class: "message", role: "status", hidden: true });
    this.body = html("div", { class: "portrait" });
    this.root = html("div", { class: "trained" }, this.chooser(), this.message, this.body);
    new ResizeObserver(() => this.resize()).observe(this.body);
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
  }

  open(settings) {
    this.settings = settings;
    const key = settings.model || DATA.portraits[0]?.key || "";
    if (key && key !== this.portrait?.key) this.choose(key);
    else if (this.portrait) this.update();
    else this.nothing();
  }

  shownNow() {
    this.resize();
  }

  nothing() {
    this.body.replaceChildren(
      html(
        "div",
        { class: "empty" },
        html("h2", {}, "No trained model yet"),
        html(
          "p",
          {},
          DATA.runs.length
            ? "Choose a stored run above. It is trained again from its settings and seed."
            : "This view shows a model from a folder, or a run from a store:",
        ),
        ...(DATA.runs.length
          ? []
          : [
              html(
                "p",
                {},
                html("code", {}, "gread fit --nodes nodes.csv --edges edges.csv --label class --model gread-bs --out model"),
                html("br"),
                html("code", {}, "gread explore --model model"),
              ),
              html("p", {}, html("code", {}, "gread train texas"), html("br"), html("code", {}, "gread explore --store runs/store")),
            ]),
      ),
    );
  }

  // Choice of the model.

  chooser() {
    const parts = [];
    if (DATA.portraits.length) {
      const list = choiceControl(
        "model",
        DATA.portraits.map(({ key, title }) => [key, title]),
        (key) => this.choose(key),
      );
      if (DATA.portraits.length > 1) parts.push(list.root);
    }
    if (DATA.runs.length) parts.push(this.runChooser());
    return html("div", { class: "chooser" }, ...parts);
  }

  /** Menus for the dataset, the model, and the split and seed of a run. */
  runChooser() {
    const unique = (values) => [...new Set(values)];
    const dataset = choiceControl(
      "stored runs on",
      unique(DATA.runs.map((run) => run.dataset)).map((name) => [name, name]),
      () => fillModels(),
    );
    const model = choiceControl("model", [], () => fillRuns());
    const which = choiceControl("run", [], () => {});
    const fillIn = (control, choices) => control.input.replaceChildren(...choices.map(([value, text]) => html("option", { value }, text)));
    const here = () => DATA.runs.filter((run) => run.dataset === dataset.input.value);
    const fillModels = () => {
      fillIn(
        model,
        unique(here().map((run) => run.model)).map((name) => [name, name]),
      );
      fillRuns();
    };
    const fillRuns = () => {
      const runs = here().filter((run) => run.model === model.input.value);
      fillIn(
        which,
        runs.map((run) => [run.key, `split ${run.split}, seed ${run.seed}: ${run.metric} ${run.val} in validation, ${run.test} in test`]),
      );
    };
    fillModels();
    const go = html(
      "button",
      { type: "button", class: "play main", onclick: () => this.choose(which.input.value) },
      "train again and show",
    );
    return html("div", { class: "runs" }, dataset.root, model.root, which.root, go);
  }

  async choose(key) {
    this.settings.model = key;
    this.wanted = key;
    while (!this.known.has(key)) {
      if (!DATA.served || !DATA.runs.some((run) => run.key === key)) {
        this.say(
          DATA.served
            ? "The model of this link is not in this store."
            : "The model of this link is not in this file. Open it with gread explore.",
        );
        return this.nothing();
      }
      const answer = await fetch(`/runs/${key}.json`).catch(() => null);
      if (this.wanted !== key) return undefined;
      if (!answer) return this.say("The server has stopped. Start gread explore again.");
      const value = await answer.json();
      if (answer.status === 200) this.known.set(key, value);
      else if (answer.status !== 202) return this.say(value.error);
      else {
        this.say(`Training again from its settings and seed: epoch ${value.epoch} of ${value.epochs} …`);
        await new Promise((resolve) => setTimeout(resolve, 400));
      }
    }
    this.message.hidden = true;
    this.portrait = this.known.get(key);
    this.build();
    this.changed();
    return undefined;
  }

  say(text) {
    this.message.textContent = text;
    this.message.hidden = false;
  }

  // The view of the chosen model.

  build() {
    const p = this.portrait;
    this.canvas = html("canvas", { role: "img", tabindex: "0" });
    this.slider = html("input", {
      type: "range",
      min: 0,
      max: 1000,
      step: 1,
      "aria-label": "integration time t",
      oninput: () => this.go(Number(this.slider.value) / 1000),
    });
    this.clock = html("output", { class: "clock" });
    this.playButton = html("button", { type: "button", class: "play main", onclick: () => this.play(!this.playing) }, "▶ play");
    this.details = html("div", { class: "details", "aria-live": "polite" });
    this.tint = choiceControl("colour by", Object.entries(TINTS), (tint) => this.take({ tint }));
    this.only = checkControl("only misclassified nodes", (on) => this.take({ wrong: on ? 1 : 0 }));
    this.charts = new ChartView({ panels: this.panels(), columns: 1, frames: [], tall: 156 });
    this.body.replaceChildren(
      html(
        "div",
        { class: "scene" },
        html("h2", {}, p.title),
        html("div", { class: "choices" }, this.tint.root, this.only.root),
        html(
          "div",
          { class: "keys" },
          ...p.labels.map((label, k) =>
            html("span", {}, html("i", { style: `background:${ink(CLASS_INKS[k % CLASS_INKS.length])}` }), label),
          ),
          html("span", {}, html("i", { class: "wrong" }), "misclassified at T"),
        ),
        html("div", { class: "cloud" }, this.canvas),
        html("div", { class: "transport" }, this.playButton, this.slider, this.clock),
        ...p.notes.map((note) => html("p", { class: "note" }, note)),
      ),
      html("aside", { class: "measures", "aria-label": "measures" }, this.charts.root),
      html("div", { class: "errors" }, html("h2", {}, "Misclassified nodes"), this.errorTable(), this.details),
    );
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event, true));
    this.canvas.addEventListener("pointerleave", ({ pointerType }) => pointerType !== "touch" && tell(null));
    this.resize();
    this.update();
  }

  /** Copy the settings to the controls. */
  update() {
    this.tint.sync(this.settings.tint);
    this.only.sync(this.settings.wrong === 1);
    this.slider.value = Math.round(1000 * this.settings.moment);
    this.describe(this.settings.node);
    this.draw();
  }

  take(values) {
    Object.assign(this.settings, values);
    this.draw();
    this.changed();
  }

  go(moment) {
    if (this.playing) this.play(false);
    this.take({ moment });
  }

  get keys() {
    if (!this.portrait) return {};
    const step = 1 / (this.portrait.times.length - 1);
    const to = (moment) => () => {
      this.go(Math.min(1, Math.max(0, moment)));
      this.slider.value = Math.round(1000 * this.settings.moment);
    };
    return {
      " ": () => this.play(!this.playing),
      arrowleft: to(this.settings.moment - step),
      arrowright: to(this.settings.moment + step),
      r: to(0),
    };
  }

  play(on) {
    this.playing = on;
    this.playButton.textContent = on ? "❚❚ pause" : "▶ play";
    if (!on) return;
    if (this.settings.moment >= 1) this.settings.moment = 0;
    const from = performance.now() - 5000 * this.settings.moment;
    const tick = (now) => {
      if (!this.playing || this.root.hidden) return this.playing && this.play(false);
      this.settings.moment = Math.min(1, Math.max(0, (now - from) / 5000));
      this.slider.value = Math.round(1000 * this.settings.moment);
      this.draw();
      if (this.settings.moment < 1) return requestAnimationFrame(tick);
      this.changed();
      return this.play(false);
    };
    requestAnimationFrame(tick);
  }

  resize() {
    if (!this.portrait || !this.canvas?.isConnected) return;
    const size = Math.floor(Math.min(this.canvas.parentElement.clientWidth, Math.max(300, innerHeight - 330)));
    if (size < 40) return;
    const scale = Math.min(2, devicePixelRatio || 1);
    this.canvas.width = this.canvas.height = Math.round(size * scale);
    this.canvas.style.width = this.canvas.style.height = `${size}px`;
    this.size = size;
    this.draw();
  }

  /** Position between two stored times: [index, fraction of the interval to the next]. */
  get now() {
    const place = this.settings.moment * (this.portrait.times.length - 1);
    const index = Math.min(this.portrait.times.length - 2, Math.floor(place));
    return [index, place - index];
  }

  get t() {
    return this.settings.moment * this.portrait.times.at(-1);
  }

  /** Position of a node at the current time, in pixels. */
  placeOf(node) {
    const [index, share] = this.now;
    const [from, to] = [this.portrait.places[index], this.portrait.places[index + 1]];
    const at = (side) => from[2 * node + side] + share * (to[2 * node + side] - from[2 * node + side]);
    return [14 + at(0) * (this.size - 28), 14 + (1 - at(1)) * (this.size - 28)];
  }

  /** Prediction at the nearest stored time. */
  predicted(node) {
    const [index, share] = this.now;
    return this.portrait.predictions[index + (share > 0.5 ? 1 : 0)][node];
  }

  errs(node) {
    const p = this.portrait;
    return p.classes[node] >= 0 && p.predictions.at(-1)[node] !== p.classes[node];
  }

  draw() {
    const p = this.portrait;
    if (!p || !this.size || !this.canvas.isConnected) return;
    const context = this.canvas.getContext("2d");
    const scale = this.canvas.width / this.size;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.size, this.size);
    const style = getComputedStyle(this.root);
    const colours = CLASS_INKS.map((colour) => resolved(this.root, colour));
    const radius = Math.min(6, Math.max(2.6, 100 / Math.sqrt(p.classes.length)));
    const crossed = [];
    const neighbours = this.settings.node >= 0 ? this.near(this.settings.node) : [];
    if (neighbours.length) {
      context.strokeStyle = style.color;
      context.globalAlpha = 0.35;
      context.beginPath();
      for (const other of neighbours) {
        context.moveTo(...this.placeOf(this.settings.node));
        context.lineTo(...this.placeOf(other));
      }
      context.stroke();
    }
    for (let c = -1; c < p.labels.length; c += 1) {
      context.fillStyle = c < 0 ? style.color : colours[c % colours.length];
      context.globalAlpha = 0.8;
      context.beginPath();
      for (let i = 0; i < p.classes.length; i += 1) {
        const tint = this.settings.tint === "class" ? p.classes[i] : this.predicted(i);
        const wrong = this.errs(i);
        if (tint !== c || (this.settings.wrong && !wrong)) continue;
        const [x, y] = this.placeOf(i);
        context.moveTo(x + radius, y);
        context.arc(x, y, radius, 0, 2 * Math.PI);
        if (wrong) crossed.push([x, y]);
      }
      context.fill();
    }
    context.globalAlpha = 1;
    context.strokeStyle = style.color;
    context.lineWidth = 1;
    context.beginPath();
    for (const [x, y] of crossed) {
      context.moveTo(x + radius + 1.5, y);
      context.arc(x, y, radius + 1.5, 0, 2 * Math.PI);
    }
    context.stroke();
    if (this.settings.node >= 0 && this.settings.node < p.classes.length) {
      const [x, y] = this.placeOf(this.settings.node);
      context.lineWidth = 2.5;
      context.beginPath();
      context.arc(x, y, radius + 6, 0, 2 * Math.PI);
      context.stroke();
    }
    this.clock.textContent = `t = ${this.t.toFixed(2)}`;
    this.slider.setAttribute("aria-valuetext", this.clock.textContent);
    const [index, share] = this.now;
    const accuracy = p.accuracy.test[index + (share > 0.5 ? 1 : 0)];
    this.canvas.setAttribute(
      "aria-label",
      `${p.classes.length} nodes at t = ${this.t.toFixed(2)}, coloured by ${TINTS[this.settings.tint]}; test accuracy if the integration ended here: ${(100 * accuracy).toFixed(1)} %`,
    );
  }

  near(node) {
    const found = [];
    const { edges } = this.portrait;
    for (let e = 0; e < edges.length; e += 2) {
      if (edges[e] === node) found.push(edges[e + 1]);
      else if (edges[e + 1] === node) found.push(edges[e]);
    }
    return found;
  }

  point(event, chosen = false) {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    let [best, far] = [-1, 14 ** 2];
    for (let i = 0; i < this.portrait.classes.length; i += 1) {
      if (this.settings.wrong && !this.errs(i)) continue;
      const [x, y] = this.placeOf(i);
      const square = (x - px) ** 2 + (y - py) ** 2;
      if (square < far) [best, far] = [i, square];
    }
    tell(best < 0 ? null : { title: `node ${this.portrait.names[best]}`, lines: this.facts(best) }, event);
    if (chosen) this.select(best);
  }

  select(node) {
    this.take({ node });
    this.describe(node);
  }

  facts(node) {
    const p = this.portrait;
    const label = (c) => (c < 0 ? "unknown" : p.labels[c]);
    const colour = (c) => (c < 0 ? null : CLASS_INKS[c % CLASS_INKS.length]);
    return [
      { label: "class", text: label(p.classes[node]), colour: colour(p.classes[node]) },
      { label: `predicted at t = ${this.t.toFixed(2)}`, text: label(this.predicted(node)), colour: colour(this.predicted(node)) },
      {
        label: "predicted at T",
        text: `${label(p.predictions.at(-1)[node])}, ${(100 * p.confidence[node]).toFixed(0)} %`,
        colour: colour(p.predictions.at(-1)[node]),
      },
      { label: "set", text: PARTS[p.parts[node]] },
      { label: "neighbours", text: String(p.degrees[node]) },
      { label: "neighbours of the same class", text: p.alike[node] === null ? "–" : `${Math.round(100 * p.alike[node])} %` },
    ];
  }

  describe(node) {
    if (!this.portrait || node < 0 || node >= this.portrait.classes.length) return this.details.replaceChildren();
    return this.details.replaceChildren(
      html("h3", {}, `Node ${this.portrait.names[node]}`),
      html("dl", {}, ...this.facts(node).flatMap(({ label, text }) => [html("dt", {}, label), html("dd", {}, text)])),
    );
  }

  panels() {
    const p = this.portrait;
    const colours = { train: "#444444", val: "#E69F00", test: "#0072B2" };
    const span = { label: "t", limits: [0, p.times.at(-1) || 1] };
    const found = [
      panelOf(
        "accuracy if the integration ended at t (%)",
        Object.entries(p.accuracy).map(([part, values]) =>
          seriesOf(
            part,
            p.times,
            values.map((share) => (share === null ? null : 100 * share)),
            colours[part],
          ),
        ),
        span,
      ),
      panelOf("Dirichlet energy", [seriesOf("energy", p.times, p.energy, "#D55E00")], span, {
        log: p.energy.every((energy) => energy > 0),
      }),
    ];
    if (p.beta.length > 1) found.push(histogram("learned β, channels", p.beta));
    if (p.response) {
      const side = (beta) => (beta > 0 ? ["β > 0", "#D55E00"] : ["β < 0", "#0072B2"]);
      found.push(
        panelOf(
          "frequency response of the channels",
          p.response.lines.map(({ beta, values }) => seriesOf(side(beta)[0], p.response.lambdas, values, side(beta)[1], { width: 0.8 })),
          { label: "eigenvalue λ of Ã", limits: [-1, 1] },
        ),
      );
    }
    return found;
  }

  errorTable() {
    const p = this.portrait;
    const wrong = [...p.classes.keys()].filter((node) => this.errs(node)).sort((a, b) => p.confidence[b] - p.confidence[a]);
    const row = (node) =>
      html(
        "tr",
        {},
        html("th", { scope: "row" }, html("button", { type: "button", onclick: () => this.select(node) }, String(p.names[node]))),
        ...[
          p.labels[p.classes[node]],
          p.labels[p.predictions.at(-1)[node]],
          `${(100 * p.confidence[node]).toFixed(0)} %`,
          PARTS[p.parts[node]],
        ].map((text) => html("td", {}, text)),
      );
    return html(
      "div",
      {},
      html(
        "p",
        { class: "note" },
        `${wrong.length} of ${p.classes.length} nodes are misclassified${wrong.length > 60 ? "; the table has 60 of them" : ""}, most confident mistakes first.`,
      ),
      html(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "misclassified nodes" },
        html(
          "table",
          {},
          html(
            "thead",
            {},
            html("tr", {}, ...["node", "class", "predicted", "confidence", "set"].map((name) => html("th", { scope: "col" }, name))),
          ),
          html("tbody", {}, ...wrong.slice(0, 60).map(row)),
        ),
      ),
    );
  }
}

/** Computed value of a data colour in the current theme. */
function resolved(root, colour) {
  const probe = html("i", { style: `color:${ink(colour)}` });
  root.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function histogram(title, values) {
  const bins = 21;
  const most = Math.max(...values.map(Math.abs), 0.1);
  const counts = Array(bins).fill(0);
  for (const value of values) counts[Math.min(bins - 1, Math.floor(((value + most) / (2 * most)) * bins))] += 1;
  const middles = counts.map((_, k) => -most + ((k + 0.5) * 2 * most) / bins);
  return panelOf(title, [seriesOf("", middles, counts, "#009E73", { mark: "bars" })], { label: "β", limits: [-most, most] });
}
