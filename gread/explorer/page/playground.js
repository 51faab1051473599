// The playground: integrates the equation on a graph and draws the states of the nodes.

const ZERO = { source: 0, linear: 0, square: 0, cube: 0, laplacian: 0, blurred: 0 };

const LOOKS = { beside: "with diffusion for comparison", alone: "only this reaction", channels: "all channels" };

class Playground {
  constructor(settings, changed) {
    this.settings = settings;
    this.changed = changed; // callback that updates the link
    this.playing = false;
    this.painting = false;
    this.own = null;
    this.frames = [];
    this.build();
    new ResizeObserver(() => this.resize()).observe(this.stages);
    new MutationObserver(() => this.resize(true)).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.resize(true));
  }

  /** Key bindings. */
  get keys() {
    const { step } = this.simulation;
    return {
      " ": () => this.play(!this.playing),
      arrowleft: () => this.scrub(step - 1),
      arrowright: () => this.scrub(step + 1),
      r: () => this.scrub(0),
      p: () => this.takeBrush(!this.painting),
    };
  }

  shownNow() {
    if (!this.simulation) return;
    this.resize();
    this.wake();
  }

  // Elements of the page.

  build() {
    this.stages = html("div", { class: "stages" });
    this.warning = html("p", { class: "warning", role: "alert", hidden: true });
    this.equation = html("p", { class: "equation" });
    this.facts = html("p", { class: "facts" });
    this.spoken = html("p", { class: "spoken", role: "status" });
    this.charts = new Measures();
    this.root = html(
      "div",
      { class: "playground" },
      html(
        "div",
        { class: "scenes", role: "group", "aria-label": "examples" },
        ...SCENES.map((scene) => this.sceneButton(scene)),
      ),
      html("aside", { class: "controls", "aria-label": "settings" }, this.controlPanel()),
      html(
        "div",
        { class: "scene" },
        this.equation,
        this.stages,
        this.transport(),
        this.warning,
        this.facts,
        this.brushPanel(),
        this.spoken,
      ),
      html(
        "aside",
        { class: "measures", "aria-label": "measures" },
        this.charts.root,
        html(
          "p",
          { class: "hint" },
          "The spectrum shows how the squared state is distributed over the eigenvalues of Ã: λ = 1 is constant over the graph, λ = −1 alternates along every edge.",
        ),
      ),
    );
    this.root.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.root.classList.add("dropping");
    });
    this.root.addEventListener("dragleave", () => this.root.classList.remove("dropping"));
    this.root.addEventListener("drop", (event) => {
      event.preventDefault();
      this.root.classList.remove("dropping");
      if (event.dataTransfer.files[0]) this.take(event.dataTransfer.files[0]);
    });
  }

  sceneButton({ title, about, to }) {
    return html(
      "button",
      { type: "button", class: "card", onclick: () => this.stage({ ...sceneDefaults(), ...to }) },
      html("strong", {}, title),
      html("span", {}, about),
    );
  }

  /** Restart from t = 0 with other settings. */
  stage(settings) {
    this.set(settings);
    this.play(true);
  }

  controlPanel() {
    const set = (name) => (value) => this.set({ [name]: value });
    const graphs = Object.entries(GRAPHS).map(([name, { title }]) => [name, title]);
    const reactions = DATA.reactions.map(({ name, title }) => [name, title]);
    const c = (this.controls = {
      graph: choiceControl("graph", [...graphs, ["own", "your own file …"]], (name) => this.choose(name)),
      n: slideControl("nodes", { min: 3, max: 10000, log: true, text: (value) => String(Math.round(value)) }, (value) =>
        this.set({ n: Math.round(value), strokes: [] }),
      ),
      degree: slideControl("neighbours per node", { min: 2, max: 30, step: 1 }, set("degree")),
      homophily: slideControl("homophily", { min: 0, max: 1, step: 0.01, hint: "share of edges within a class" }, set("homophily")),
      blocks: slideControl("classes", { min: 2, max: 6, step: 1 }, set("blocks")),
      reaction: choiceControl("reaction r(H)", reactions, set("reaction")),
      alpha: coefficientControl("α, diffusion", { min: 0, max: 2, step: 0.01 }, set("alpha")),
      beta: coefficientControl("β, reaction", { min: -2, max: 2, step: 0.01 }, set("beta")),
      start: choiceControl(
        "H(0)",
        Object.entries(STARTS).map(([name, { title }]) => [name, title]),
        (start) => this.set({ start, strokes: [], step: 0 }),
      ),
      channels: slideControl("channels", { min: 1, max: CHANNELS, step: 1 }, (channels) => this.setChannels(channels)),
      seed: slideControl("seed", { min: 0, max: 99, step: 1 }, set("seed")),
      tau: slideControl("step τ", { min: 0.01, max: 3, log: true }, (tau) =>
        this.set({ tau, step: Math.round(this.simulation.t / tau), strokes: this.settings.strokes.filter(({ step }) => step === 0) }),
      ),
      time: slideControl("end time T", { min: 1, max: 400, log: true }, set("time")),
      solver: choiceControl(
        "solver",
        DATA.solvers.map(({ name, title }) => [name, title.split(" (")[0]]),
        set("solver"),
      ),
      normalization: choiceControl(
        "Ã is",
        [
          ["symmetric", "D^−½ A D^−½"],
          ["row", "D⁻¹ A, mean of neighbours"],
          ["column", "A D⁻¹"],
        ],
        set("normalization"),
      ),
      loops: checkControl("self loops", (on) => this.set({ loops: on ? 1 : 0 })),
      look: choiceControl("show", Object.entries(LOOKS), set("look")),
      channel: choiceControl("channel", [["0", "1"]], (channel) => this.set({ channel: Number(channel) })),
      palette: choiceControl(
        "colours",
        Object.keys(PALETTES).map((name) => [name, name]),
        set("palette"),
      ),
      colours: choiceControl(
        "colour range",
        [
          ["start", "range of H(0)"],
          ["now", "current range"],
        ],
        set("colours"),
      ),
      speed: choiceControl(
        "speed",
        [1, 2, 4, 8, 16].map((k) => [String(k), k === 1 ? "1 step per frame" : `${k} steps per frame`]),
        (speed) => this.set({ speed: Number(speed) }),
      ),
    });
    this.picker = html("input", {
      type: "file",
      class: "picker",
      accept: ".csv,.tsv,.txt,.edges,.json",
      "aria-label": "file with your graph",
      onchange: () => this.picker.files[0] && this.take(this.picker.files[0]),
    });
    this.trouble = html("p", { class: "warning", role: "alert", hidden: true });
    const group = (title, open, ...parts) => html("details", { open }, html("summary", {}, title), ...parts);
    const wide = innerWidth >= 760;
    return html(
      "div",
      {},
      group("Equation", true, c.reaction.root, c.alpha.root, c.beta.root),
      group(
        "Graph",
        wide,
        c.graph.root,
        html("p", { class: "hint" }, "Or drop a file on the page: lines of source, target, weight, or JSON with nodes and edges."),
        this.picker,
        this.trouble,
        c.n.root,
        c.homophily.root,
        c.blocks.root,
        c.degree.root,
        c.normalization.root,
        c.loops.root,
      ),
      group("Start", wide, c.start.root, c.channels.root, c.seed.root),
      group("Solver", wide, c.solver.root, c.tau.root, c.time.root),
      group("Picture", wide, c.look.root, c.channel.root, c.palette.root, c.colours.root, c.speed.root),
      group(
        "Keyboard",
        false,
        html(
          "p",
          { class: "hint" },
          "Space plays and pauses, ← and → take one step, R returns to t = 0, P selects the brush. With the brush selected and a picture focused, arrow keys move the brush and Enter paints.",
        ),
      ),
    );
  }

  transport() {
    this.playButton = html("button", { type: "button", class: "play main", onclick: () => this.play(!this.playing) }, "▶ play");
    this.timeline = html("input", {
      type: "range",
      min: 0,
      step: 1,
      value: 0,
      "aria-label": "time t",
      oninput: () => this.scrub(Number(this.timeline.value)),
    });
    this.clock = html("output", { class: "clock" });
    this.rate = html("span", { class: "rate" });
    const step = (sign, text, label) =>
      html(
        "button",
        { type: "button", class: "play", "aria-label": label, title: label, onclick: () => this.scrub(this.simulation.step + sign) },
        text,
      );
    return html(
      "div",
      { class: "transport" },
      step(-Infinity, "❙◂", "back to t = 0"),
      step(-1, "◂", "one step back"),
      this.playButton,
      step(1, "▸", "one step forward"),
      this.timeline,
      this.clock,
      this.rate,
    );
  }

  brushPanel() {
    this.brush = { reach: 0.06, value: 1 };
    this.brushButton = html(
      "button",
      { type: "button", class: "play", "aria-pressed": "false", onclick: () => this.takeBrush(!this.painting) },
      "paint",
    );
    const value = slideControl("value", { min: -1, max: 2, step: 0.1 }, (next) => (this.brush.value = next));
    const reach = slideControl(
      "size",
      { min: 0.01, max: 0.3, step: 0.01, text: (share) => `${Math.round(100 * share)} %` },
      (next) => (this.brush.reach = next),
    );
    value.sync(1);
    reach.sync(0.06);
    const forget = html("button", { type: "button", class: "play", onclick: () => this.set({ strokes: [] }) }, "clear");
    this.brushTools = html("div", { class: "brushes", hidden: true }, value.root, reach.root, forget);
    return html("div", { class: "brushing" }, this.brushButton, this.brushTools);
  }

  // Settings.

  /** Apply settings and show their solution at the same time t. */
  set(values) {
    Object.assign(this.settings, values);
    const { settings } = this;
    const fits = (list) =>
      list.length === 1 || list.length === settings.channels
        ? list
        : Array.from({ length: settings.channels }, (_, k) => list[k] ?? list.at(-1));
    Object.assign(settings, {
      alpha: fits(settings.alpha),
      beta: fits(settings.beta),
      channel: Math.min(settings.channel, settings.channels - 1),
    });
    const sizes = GRAPHS[settings.graph]?.sizes;
    if (sizes) settings.n = Math.min(sizes.max, Math.max(sizes.min, settings.n));
    this.restart();
    this.sync();
    this.changed();
  }

  setChannels(channels) {
    this.set({ channels, strokes: this.settings.strokes.filter((stroke) => stroke.channel < channels) });
  }

  choose(name) {
    if (name !== "own") this.set({ graph: name, n: GRAPHS[name].sizes?.value ?? this.settings.n, strokes: [], own: "", step: 0 });
    else if (this.own) this.set({ graph: "own", strokes: [], step: 0 });
    else {
      this.controls.graph.sync(this.settings.graph);
      this.picker.click();
    }
  }

  /** Read a user's file. */
  async take(file) {
    try {
      if (file.size > MOST.bytes)
        throw new FileProblem(`${file.name} has ${Math.round(file.size / 1e6)} MB; at most ${MOST.bytes / 1e6} MB are accepted.`);
      this.own = graphFromText(await file.text(), file.name);
    } catch (error) {
      if (!(error instanceof FileProblem)) throw error;
      this.trouble.textContent = error.message;
      this.trouble.hidden = false;
      return;
    } finally {
      this.picker.value = "";
    }
    const text = await packed(this.own);
    this.trouble.hidden = text !== null;
    if (text === null) this.trouble.textContent = "This graph is too large for a link. To open the link elsewhere, drop the same file on the page.";
    this.set({ graph: "own", own: text ?? "", start: this.own.labels ? "classes" : "noise", strokes: [], step: 0 });
  }

  /** Apply settings from a link; unpack its graph first if it has one. */
  async open(settings) {
    this.settings = settings;
    if (settings.graph === "own") {
      try {
        this.own = settings.own === "" ? this.own : await unpacked(settings.own);
      } catch {
        this.own = null;
      }
      if (!this.own) {
        this.trouble.textContent = "The link does not contain its graph: drop the file here.";
        this.trouble.hidden = false;
        settings.graph = "grid";
      }
    }
    this.set({});
  }

  restart() {
    const { settings } = this;
    const made = JSON.stringify([
      settings.graph,
      settings.n,
      settings.degree,
      settings.homophily,
      settings.blocks,
      settings.seed,
      settings.own.length,
    ]);
    if (made !== this.made || settings.graph === "own") {
      this.graph = settings.graph === "own" ? this.own : GRAPHS[settings.graph].make(settings);
      this.made = made;
      this.placed = "";
    }
    const { graph } = this;
    const kept = JSON.stringify([made, settings.normalization, settings.loops]);
    if (kept !== this.kept || settings.graph === "own") {
      this.operator = operatorOf(graph.count, graph.pairs, graph.weights, settings);
      this.symmetric = symmetricForm(this.operator);
      this.extremes = extremes(this.operator);
      this.kept = kept;
    }
    this.reaction = DATA.reactions.find(({ name }) => name === settings.reaction);
    this.tableau = DATA.solvers.find(({ name }) => name === settings.solver);
    this.coefficients = [...Array(settings.channels).keys()].map((k) => ({
      alpha: settings.alpha[k] ?? settings.alpha[0],
      beta: settings.beta[k] ?? settings.beta[0],
    }));
    const starts = startOf(settings.start, graph, settings.channels, settings.seed);
    this.simulation = new Simulation({
      graph,
      operator: this.operator,
      starts,
      processes: [
        { name: "diffusion", terms: ZERO, coefficients: this.coefficients },
        { name: this.reaction.title, terms: this.reaction.terms, coefficients: this.coefficients },
      ],
      tableau: this.tableau,
      tau: settings.tau,
      time: settings.time,
      strokes: settings.strokes,
    });
    settings.step = Math.min(settings.step, this.simulation.last);
    this.target = settings.step;
    this.limits = limitsOf(starts);
    this.charts.forget();
    this.resize();
    this.wake();
  }

  sync() {
    const { settings, controls: c } = this;
    for (const name of [
      "graph",
      "degree",
      "homophily",
      "blocks",
      "reaction",
      "start",
      "channels",
      "seed",
      "tau",
      "time",
      "solver",
      "normalization",
      "look",
      "palette",
      "colours",
    ])
      c[name].sync(settings[name]);
    c.n.sync(settings.n);
    c.loops.sync(settings.loops === 1);
    c.speed.sync(String(settings.speed));
    c.alpha.sync(settings.alpha, settings.channels);
    c.beta.sync(settings.beta, settings.channels);
    c.channel.input.replaceChildren(...[...Array(settings.channels).keys()].map((k) => html("option", { value: k }, String(k + 1))));
    c.channel.sync(String(settings.channel));
    const has = {
      n: GRAPHS[settings.graph]?.sizes,
      degree: ["geometric", "sbm"].includes(settings.graph),
      homophily: settings.graph === "sbm",
      blocks: settings.graph === "sbm",
      channel: settings.channels > 1 && settings.look !== "channels",
    };
    for (const [name, shown] of Object.entries(has)) c[name].root.hidden = !shown;
    if (settings.start === "empty" && !this.painting) this.takeBrush(true);
    this.timeline.max = this.simulation.last;
    const formula = this.reaction.formula.split(" = ").at(-1);
    const sum = /[+−]/.test(formula.replace(/\(.*?\)/g, "")); // β multiplies all terms, so a sum needs parentheses
    const coefficient = (letter, values) => (values.length > 1 ? `${letter} ⊙ ` : values[0] === 1 ? "" : `${number(values[0])} `);
    this.equation.textContent = `dH/dt = −${coefficient("α", settings.alpha)}L̃ H ${settings.beta.length === 1 && settings.beta[0] < 0 ? "−" : "+"} ${coefficient("β", settings.beta.length === 1 ? [Math.abs(settings.beta[0])] : settings.beta)}${sum ? `(${formula})` : formula}`;
    const mixing = homophilyOf(this.graph);
    this.facts.textContent = `${this.graph.count} nodes, ${this.graph.weights.length} edges, homophily ${mixing.toFixed(2)}${this.graph.labels ? ` (${this.graph.labels.slice(0, 4).join(", ")})` : ""}; eigenvalues of Ã from ${number(Number(this.extremes[0].toFixed(3)))} to ${number(Number(this.extremes[1].toFixed(3)))}`;
  }

  // Pictures.

  /** Process, channel and title of each picture. */
  shown() {
    const { look, channel, channels } = this.settings;
    const name = this.reaction.title;
    const suffix = channels > 1 ? `, channel ${channel + 1}` : "";
    if (look === "channels")
      return [...Array(channels).keys()].map((c) => ({
        process: 1,
        channel: c,
        title: `${name}, channel ${c + 1}, β = ${number(this.coefficients[c].beta)}`,
      }));
    const own = { process: 1, channel, title: `${name}${suffix}` };
    return look === "alone" ? [own] : [{ process: 0, channel, title: `diffusion${suffix}` }, own];
  }

  /** Create a stage for each picture and set its size. */
  resize(colours = false) {
    if (!this.simulation) return; // a graph is still being unpacked
    const shown = this.shown();
    const width = this.stages.clientWidth;
    if (width < 40) return;
    const high = Math.max(260, innerHeight - 300);
    const narrow = innerWidth < 760;
    const columns = narrow ? Math.min(2, shown.length) : shown.length > 2 ? 2 : shown.length;
    const size = Math.floor(Math.min(640, (width - 14 * (columns - 1)) / columns, shown.length > 2 ? high / 1.6 : high));
    const placed = JSON.stringify([this.made, size, shown.map(({ title }) => title), this.settings.palette, this.settings.own.length]);
    if (placed === this.placed && !colours) return;
    this.placed = placed;
    this.palette = paletteOf(this.settings.palette);
    this.views = shown.map((about) => {
      const stage = new Stage(about.title);
      const scale = html(
        "div",
        { class: "colours" },
        html("span"),
        html("i", {
          style: `background:linear-gradient(90deg,${PALETTES[this.settings.palette].map((colour) => `rgb(${colour})`).join(",")})`,
        }),
        html("span"),
      );
      this.listen(stage, about);
      return { ...about, stage, scale };
    });
    this.stages.style.setProperty("--columns", columns);
    this.stages.replaceChildren(
      ...this.views.map(({ stage, title, scale }) => html("figure", {}, html("figcaption", {}, title), stage.root, scale)),
    );
    for (const { stage } of this.views) stage.place(this.graph, size);
    this.dress();
    this.wake();
  }

  /** Pointer, touch and key handlers of a stage. */
  listen(stage, about) {
    let down = false;
    const at = (event) => {
      const found = stage.under(event);
      if (this.painting) this.showBrush(stage, found);
      if (this.painting && down) this.paint(found.x, found.y, about.channel);
      else tell(found.node < 0 ? null : this.describe(found.node), event);
    };
    stage.canvas.addEventListener("pointerdown", (event) => {
      down = this.painting && event.button === 0;
      if (down) stage.canvas.setPointerCapture(event.pointerId);
      at(event);
    });
    stage.canvas.addEventListener("pointermove", at);
    stage.canvas.addEventListener("pointerup", () => (down = false));
    stage.canvas.addEventListener("pointerleave", (event) => {
      stage.ring.hidden = true;
      if (event.pointerType !== "touch") tell(null);
    });
    const place = { x: 0.5, y: 0.5 };
    stage.canvas.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!this.painting || !(way || event.key === "Enter")) return;
      event.preventDefault();
      event.stopPropagation();
      if (way) for (const [k, side] of ["x", "y"].entries()) place[side] = Math.min(1, Math.max(0, place[side] + 0.03 * way[k]));
      else this.paint(place.x, place.y, about.channel);
      this.showBrush(stage, place);
    });
  }

  showBrush(stage, { x, y }) {
    const { margin, wide, scale } = stage.inner;
    const across = (2 * this.brush.reach * wide) / scale;
    stage.ring.hidden = false;
    stage.ring.style.cssText = `width:${across}px;height:${across}px;left:${(margin + x * wide) / scale - across / 2}px;top:${(margin + y * wide) / scale - across / 2}px`;
  }

  describe(node) {
    const { graph, simulation, settings } = this;
    const lines = this.views.map(({ process, channel, title }) => ({
      label: title,
      text: number(simulation.states[process][channel][node]),
      colour: INKS[process],
    }));
    return {
      title: graph.names ? graph.names[node] : `node ${node}`,
      lines: [
        ...lines,
        { label: "class", text: String(graph.labels?.[graph.classes[node]] ?? graph.classes[node] + 1) },
        { label: "total edge weight", text: number(this.operator.degree[node] - settings.loops) },
      ],
    };
  }

  takeBrush(on) {
    this.painting = on;
    this.brushButton.setAttribute("aria-pressed", String(on));
    this.brushTools.hidden = !on;
    this.dress();
  }

  /** Show the brush cursor; without the brush, touch scrolls the page. */
  dress() {
    for (const { stage } of this.views ?? []) stage.root.classList.toggle("painting", this.painting);
  }

  paint(x, y, channel) {
    const short = (place) => Math.round(place * 1000) / 1000;
    this.simulation.paint({ channel, x: short(x), y: short(y), reach: this.brush.reach, value: this.brush.value });
    this.settings.strokes = this.simulation.strokes;
    this.target = this.settings.step = this.simulation.step;
    this.changed();
    this.wake();
  }

  // Time.

  play(on) {
    if (on && this.simulation.step >= this.simulation.last) this.simulation.seek(0);
    this.playing = on;
    this.playButton.textContent = on ? "❚❚ pause" : "▶ play";
    this.frames = [];
    if (on) this.target = this.simulation.step;
    else this.rest();
    this.wake();
  }

  scrub(step) {
    if (this.playing) this.play(false);
    this.target = Math.min(this.simulation.last, Math.max(0, step));
    this.wake();
  }

  wake() {
    this.frame ??= requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.frame = null;
    if (this.root.hidden || !this.root.isConnected) return;
    const { simulation, settings } = this;
    if (this.playing) this.target = Math.min(simulation.last, simulation.step + settings.speed);
    const there = simulation.seek(this.target, performance.now() + (this.playing ? 24 : 40));
    if (simulation.broken !== null) this.target = simulation.step;
    settings.step = this.target;
    this.draw(now, there);
    const ended = this.playing && (simulation.step >= simulation.last || simulation.broken !== null);
    if (ended) this.play(false);
    else if (this.playing || !there) this.wake();
    else this.rest();
  }

  draw(now, there) {
    const { simulation } = this;
    for (const { stage, process, channel, scale } of this.views ?? []) {
      const h = simulation.states[process][channel];
      const limits = this.settings.colours === "now" ? limitsNow(h) : this.limits[channel];
      stage.show(h, this.palette, limits);
      scale.firstChild.textContent = number(Number(limits[0].toPrecision(2)));
      scale.lastChild.textContent = number(Number(limits[1].toPrecision(2)));
    }
    this.timeline.value = simulation.step;
    this.timeline.setAttribute("aria-valuetext", `t = ${number(simulation.t)}`);
    this.clock.textContent = `t = ${simulation.t.toFixed(2)}`;
    this.frames.push(now);
    while (this.frames.length > 60) this.frames.shift();
    const seconds = (this.frames.at(-1) - this.frames[0]) / 1000;
    if (this.playing && this.frames.length > 10) this.rate.textContent = `${Math.round((this.frames.length - 1) / seconds)} frames/s`;
    if (!this.playing && there) return; // `rest` draws the charts
    if (this.charts.follow(now, simulation, this.symmetric, this.settings.channel)) this.warn();
  }

  /** Update the charts, the link and the text for screen readers when the animation stops. */
  rest() {
    const { simulation } = this;
    this.charts.draw(simulation, this.symmetric, this.settings.channel);
    this.warn();
    const now = simulation.measures[simulation.step];
    this.spoken.textContent = `t = ${number(simulation.t)}. ${simulation.processes
      .map(({ name }, k) => `${name}: energy ${number(now[k].energy)}, states from ${number(now[k].low)} to ${number(now[k].high)}`)
      .join("; ")}.`;
    this.changed();
  }

  warn() {
    const { simulation } = this;
    const now = simulation.measures[simulation.step][1];
    const found = warningOf(this.reaction.terms, this.coefficients, this.extremes, [now.low, now.high], this.settings.tau, this.tableau);
    const texts = found ? [found.text] : [];
    if (simulation.broken !== null)
      texts.unshift(
        `The states overflow at t = ${number(timeOf(simulation.broken, this.settings.time, this.settings.tau))}.`,
      );
    this.warning.hidden = texts.length === 0;
    if (this.warning.textContent !== texts.join(" ")) this.warning.textContent = texts.join(" ");
    this.warning.dataset.kind = simulation.broken !== null ? "broken" : (found?.kind ?? "");
  }
}

/** Colour range of each channel: 2 % and 98 % quantiles of H(0) (its range below 60 nodes); if equal, a range with 0 and 1. */
function limitsOf(starts) {
  return starts.map((h) => {
    const sorted = Float64Array.from(h).sort();
    const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
    const [low, high] = sorted.length < 60 ? [at(0), at(1)] : [at(0.02), at(0.98)];
    return high - low > 1e-9 ? [low, high] : [Math.min(0, at(0)), Math.max(1, at(1))];
  });
}

function limitsNow(h) {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < h.length; i += 1) {
    if (h[i] < low) low = h[i];
    if (h[i] > high) high = h[i];
  }
  return high - low > 1e-12 ? [low, high] : [low - 0.5, low + 0.5];
}
