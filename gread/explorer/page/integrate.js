// dh/dt = −α L̃ h + β r(h) for one channel, and Runge-Kutta steps: the counterpart of gread.dynamics.
//
// Reactions and solvers come from Python's registries as numbers: a reaction is
// p₀ h(0) + p₁ h + p₂ h² + p₃ h³ + q L̃ h + s Ã L̃ h, a solver is its table.

/** Right-hand side of one channel: a function that writes dh/dt at h to ``out``. */
function problemOf(operator, terms, alpha, beta, h0) {
  const { count, start, column, weight } = operator;
  const { source, linear, square, cube, laplacian } = terms;
  const lh = new Float64Array(count);
  const blurred = terms.blurred === 0 ? null : new Float64Array(count);
  return (h, out) => {
    for (let i = 0; i < count; i += 1) {
      let sum = 0;
      for (let e = start[i], end = start[i + 1]; e < end; e += 1) sum += weight[e] * h[column[e]];
      lh[i] = h[i] - sum;
    }
    for (let i = 0; i < count; i += 1) {
      const x = h[i];
      const reaction = source * h0[i] + x * (linear + x * (square + x * cube)) + laplacian * lh[i];
      out[i] = beta * reaction - alpha * lh[i];
    }
    if (blurred === null) return;
    multiply(operator, lh, blurred);
    const factor = beta * terms.blurred;
    for (let i = 0; i < count; i += 1) out[i] += factor * blurred[i];
  };
}

/** Buffers for the stages of a step, reused by all steps. */
function roomOf(count, { b }) {
  return { at: new Float64Array(count), slopes: b.map(() => new Float64Array(count)) };
}

/** State after one step of length ``tau`` from h. */
function stepOf({ a, b }, slope, h, tau, { at, slopes } = roomOf(h.length, { b })) {
  slope(h, slopes[0]);
  for (let stage = 1; stage < b.length; stage += 1) {
    combine(h, tau, a[stage - 1], slopes, at);
    slope(at, slopes[stage]);
  }
  return combine(h, tau, b, slopes, new Float64Array(h.length));
}

/** Write h + τ Σ w_k s_k to ``out``. */
function combine(h, tau, weights, slopes, out) {
  out.set(h);
  for (let k = 0; k < weights.length; k += 1) {
    if (weights[k] === 0) continue;
    const [factor, slope] = [tau * weights[k], slopes[k]];
    for (let i = 0; i < out.length; i += 1) out[i] += factor * slope[i];
  }
  return out;
}

/** Number of steps up to T; the last one ends exactly at T. */
function stepCount(time, tau) {
  return Math.max(1, Math.ceil(time / tau - 1e-9));
}

/** Start time of step k. */
function timeOf(k, time, tau) {
  return k >= stepCount(time, tau) ? time : k * tau;
}

/** h(T). */
function integrated(slope, h0, time, tau, tableau) {
  let h = h0;
  const count = stepCount(time, tau);
  for (let k = 0; k < count; k += 1) h = stepOf(tableau, slope, h, timeOf(k + 1, time, tau) - k * tau);
  return h;
}
