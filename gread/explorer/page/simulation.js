// The evolution with random access in time. The state at t is always the solution from 0 to t with the
// current settings and the brush strokes before t.

const KEPT = 8e6; // largest number of values in stored states

class Simulation {
  /**
   * @param setting graph, operator, starts (h(0) per channel), processes ([{name, terms, coefficients: [{alpha, beta}]}]),
   *   tableau, tau, time, strokes ([{step, channel, x, y, reach, value}], ordered by step)
   */
  constructor(setting) {
    Object.assign(this, setting);
    this.last = stepCount(this.time, this.tau);
    this.every = 1; // steps between two stored states
    this.kept = new Map();
    this.measures = [];
    this.broken = null;
    this.room = roomOf(this.graph.count, this.tableau);
    this.begin();
  }

  begin() {
    this.step = 0;
    this.sources = this.starts.map((h, channel) => this.brushed(h, channel, 0));
    this.states = this.processes.map(() => this.sources.map((h) => h));
    this.slopes = this.processes.map(({ terms, coefficients }) =>
      this.sources.map((h0, channel) => problemOf(this.operator, terms, coefficients[channel].alpha, coefficients[channel].beta, h0)),
    );
    this.measure();
    this.keep();
  }

  brushed(h, channel, step) {
    let out = h;
    for (const stroke of this.strokes) {
      if (stroke.step === step && stroke.channel === channel) out = painted(this.graph, out, stroke);
    }
    return out;
  }

  /** Add a stroke at the current step and discard all later states. */
  paint(stroke) {
    this.strokes = [...this.strokes.filter(({ step }) => step <= this.step), { ...stroke, step: this.step }];
    this.measures.length = this.step;
    for (const step of this.kept.keys()) if (step >= this.step) this.kept.delete(step);
    this.broken = null;
    if (this.step === 0) {
      this.begin();
      return;
    }
    this.states = this.states.map((channels) => channels.map((h, c) => (c === stroke.channel ? painted(this.graph, h, stroke) : h)));
    this.measure();
    this.keep();
  }

  get t() {
    return timeOf(this.step, this.time, this.tau);
  }

  /** Take one step; false at the end or if the state overflows. */
  advance() {
    if (this.step >= this.last || this.broken !== null) return false;
    const tau = timeOf(this.step + 1, this.time, this.tau) - this.t;
    this.step += 1;
    this.states = this.states.map((channels, p) =>
      channels.map((h, c) => this.brushed(stepOf(this.tableau, this.slopes[p][c], h, tau, this.room), c, this.step)),
    );
    this.measure();
    if (!this.finite()) {
      this.broken = this.step;
      this.step -= 1;
      this.measures.length = this.step + 1;
      this.restore(this.step);
      return false;
    }
    this.keep();
    return true;
  }

  /** Go to a step: forward by integration, backward from the last stored state at or before it. */
  seek(step, deadline = Infinity) {
    const wanted = Math.min(step, this.last);
    if (wanted < this.step) this.restore(wanted);
    while (this.step < wanted && performance.now() < deadline) if (!this.advance()) return true;
    return this.step >= wanted;
  }

  /** Load the last stored state at or before a step and integrate to the step. */
  restore(step) {
    let from = step;
    while (!this.kept.has(from)) from -= 1;
    this.states = this.kept.get(from).map((channels) => [...channels]);
    this.step = from;
    while (this.step < step && this.advance());
  }

  finite() {
    const now = this.measures[this.step];
    return now.every(
      ({ energy, low, high }) => Number.isFinite(energy) && Number.isFinite(low) && Number.isFinite(high) && Math.max(-low, high) < 1e100,
    );
  }

  /** Energy and range of every process at the current step. */
  measure() {
    const { count, pairs, weights } = this.graph;
    this.measures[this.step] = this.states.map((channels) => {
      let [energy, low, high] = [0, Infinity, -Infinity];
      for (const h of channels) {
        energy += dirichletEnergy(count, pairs, weights, h);
        for (let i = 0; i < count; i += 1) {
          if (h[i] < low) low = h[i];
          if (h[i] > high) high = h[i];
          if (h[i] !== h[i]) high = NaN;
        }
      }
      return { energy, low, high };
    });
  }

  keep() {
    if (this.step % this.every !== 0) return;
    this.kept.set(
      this.step,
      this.states.map((channels) => [...channels]),
    );
    const size = this.graph.count * this.sources.length * this.processes.length;
    if (this.kept.size * size <= KEPT || this.kept.size < 3) return;
    this.every *= 2;
    for (const step of this.kept.keys()) if (step % this.every !== 0) this.kept.delete(step);
  }
}
