// Charts of the evolution: energy and range over time, and the current spectrum.

const INKS = ["#0072B2", "#D55E00"]; // diffusion, reaction-diffusion

// Chebyshev points, about as dense as the moments resolve.
const LAMBDAS = [...Array(26).keys()].map((k) => Math.cos((Math.PI * (25 - k)) / 25));

const TITLES = { energy: "Dirichlet energy", range: "range of the states", spectrum: "spectrum of the states" };

function panelOf(title, series = [], x = {}, y = {}) {
  const axis = { label: "", log: false, limits: null, ticks: [], hidden: false };
  return { title, series, image: null, x: { ...axis, ...x }, y: { ...axis, ...y }, remark: "" };
}

function seriesOf(label, x, y, colour, more = {}) {
  return { label, x, y, low: [], high: [], mark: "line", colour, marker: "", dashed: false, width: 1.6, ...more };
}

class Measures {
  constructor() {
    this.charts = new ChartView({ panels: Object.values(TITLES).map((title) => panelOf(title)), columns: 1, frames: [], tall: 168 });
    this.root = this.charts.root;
    this.forget();
  }

  /** Redraw all charts at the next call of `follow`. */
  forget() {
    this.drawn = { history: 0, spectrum: 0 };
  }

  /** Redraw charts during an animation at a reduced rate, because a chart takes longer than a frame. */
  follow(now, simulation, symmetric, channel) {
    if (now - this.drawn.history < 200) return false;
    this.draw(simulation, symmetric, channel, now - this.drawn.spectrum > 600);
    return true;
  }

  draw(simulation, symmetric, channel, withSpectrum = true) {
    this.drawn.history = performance.now();
    const panels = this.history(simulation);
    if (withSpectrum) {
      this.drawn.spectrum = performance.now();
      panels.push(this.spectrum(simulation, symmetric, channel));
    }
    panels.forEach((panel, k) => {
      this.charts.boxes[k].panel = panel;
      this.charts.drawBox(this.charts.boxes[k]);
    });
    const names = simulation.processes.map(({ name }) => name).join();
    if (this.named !== names) this.root.querySelector(".legend").replaceWith(this.charts.legend(labels(panels), true));
    this.named = names;
  }

  /** Energy and range of both processes, at some of the steps so far. */
  history(simulation) {
    const steps = [];
    for (let k = 0; k < simulation.step; k += Math.ceil(simulation.step / 160)) steps.push(k);
    steps.push(simulation.step);
    const x = steps.map((k) => timeOf(k, simulation.time, simulation.tau));
    const line = (process, y, more = {}) => seriesOf(simulation.processes[process].name, x, y, INKS[process], more);
    const of = (process, what) => steps.map((k) => simulation.measures[k][process][what]);
    const span = { label: "t", limits: [0, Math.max(simulation.tau, simulation.t)] };
    const positive = simulation.measures.every((now) => now.every(({ energy }) => energy > 0));
    const edges = (p) => [
      line(p, of(p, "high"), { low: of(p, "low"), high: of(p, "high"), width: 1.1 }),
      line(p, of(p, "low"), { width: 1.1 }),
    ];
    const energies = [1, 0].map((p) => line(p, of(p, "energy")));
    return [panelOf(TITLES.energy, energies, span, { log: positive }), panelOf(TITLES.range, [1, 0].flatMap(edges), span)];
  }

  spectrum(simulation, symmetric, channel) {
    const densities = [1, 0].map((p) => spectralDensity(symmetric, simulation.states[p][channel], LAMBDAS));
    const most = Math.max(...densities.flat(), 1e-300);
    const lines = [1, 0].map((p, k) => {
      const seen = densities[k].map((density) => Math.max(density, most * 1e-7));
      return seriesOf(simulation.processes[p].name, LAMBDAS, seen, INKS[p]);
    });
    return panelOf(TITLES.spectrum, lines, { label: "eigenvalue λ of Ã", limits: [-1, 1] }, { log: true, limits: [most * 1e-6, most * 2] });
  }
}
