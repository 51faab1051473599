// Warnings about unstable steps and growing solutions.

/** Stability polynomial R of a Runge-Kutta table: a step of dh/dt = g h multiplies h by R(τ g). */
function growthOf({ a, b }) {
  const stages = []; // each stage k / (g h) as a polynomial in z = τ g
  b.forEach((_, stage) => {
    const found = [1];
    (a[stage - 1] ?? []).forEach((weight, k) => {
      stages[k].forEach((part, power) => {
        found[power + 1] = (found[power + 1] ?? 0) + weight * part;
      });
    });
    stages.push(found);
  });
  const growth = [1];
  b.forEach((weight, k) => {
    stages[k].forEach((part, power) => {
      growth[power + 1] = (growth[power + 1] ?? 0) + weight * part;
    });
  });
  return (z) => growth.reduceRight((sum, part) => sum * z + part, 0);
}

/** Length s of the interval [−s, 0] of τ g on which |R| ≤ 1. */
function stableInterval(tableau) {
  const growth = growthOf(tableau);
  let z = 0;
  while (z > -20 && Math.abs(growth(z - 0.001)) <= 1 + 1e-9) z -= 0.001;
  return -z;
}

/** Rate of a mode with eigenvalue λ of Ã at a state h: the derivative of the right-hand side. */
function rateOf(terms, alpha, beta, lambda, h) {
  const loss = 1 - lambda;
  const local = terms.linear + h * (2 * terms.square + 3 * h * terms.cube);
  return -alpha * loss + beta * (local + terms.laplacian * loss + terms.blurred * lambda * loss);
}

/**
 * Warning about a step: {kind: "step" | "growth" | "runaway", text}, or null.
 *
 * @param channels [{alpha, beta}]
 * @param spectrum [lowest, highest] eigenvalue of Ã
 * @param range [lowest, highest] state
 */
function warningOf(terms, channels, spectrum, range, tau, tableau) {
  const linear = terms.square === 0 && terms.cube === 0;
  const limit = stableInterval(tableau);
  let [fastest, growing] = [null, null];
  channels.forEach(({ alpha, beta }, channel) => {
    for (let k = 0; k <= 60; k += 1) {
      const lambda = spectrum[0] + (k / 60) * (spectrum[1] - spectrum[0]);
      for (let j = 0; j <= (linear ? 0 : 12); j += 1) {
        const h = linear ? 0 : range[0] + (j / 12) * (range[1] - range[0]);
        const rate = rateOf(terms, alpha, beta, lambda, h);
        const found = { rate, lambda, h, channel };
        if (!fastest || rate < fastest.rate) fastest = found;
        if (!growing || rate > growing.rate) growing = found;
      }
    }
  });
  const where = (found) =>
    `at λ = ${number(Number(found.lambda.toPrecision(3)))}${linear ? "" : ` and h = ${number(Number(found.h.toPrecision(3)))}`}` +
    (channels.length > 1 ? ` in channel ${found.channel + 1}` : "");
  if (-fastest.rate * tau > limit) {
    const most = Math.floor((1000 * limit) / -fastest.rate) / 1000;
    return {
      kind: "step",
      text:
        `The step is unstable: ${where(fastest)} the solution decays at the rate ${number(Number(fastest.rate.toPrecision(3)))}, and τ times that ` +
        `is ${number(Number((fastest.rate * tau).toPrecision(3)))}, outside the [−${number(Number(limit.toPrecision(3)))}, 0] in which ${tableau.title.split(",")[0]} is stable. ` +
        `The picture shows an artefact of the solver, not the equation: choose τ ≤ ${number(most)}.`,
    };
  }
  const escapes = linear ? null : runawayOf(terms, channels, range);
  if (escapes) return { kind: "runaway", text: escapes };
  if (linear && growing.rate > 1e-9) {
    return {
      kind: "growth",
      text:
        `The equation itself grows, independently of the step: ${where(growing)} like e^(${number(Number(growing.rate.toPrecision(3)))} t). ` +
        `The reaction is stronger than diffusion there.`,
    };
  }
  return null;
}

/** Message if a polynomial reaction drives a state of the current range to infinity, else null. */
function runawayOf(terms, channels, [low, high]) {
  const reaction = (h) => h * (terms.linear + h * (terms.square + h * terms.cube));
  for (const [channel, { beta }] of channels.entries()) {
    const far = 1e3;
    const where = channels.length > 1 ? ` in channel ${channel + 1}` : "";
    const why = "no fixed point bounds β r(h), so they diverge in finite time, and no step size helps";
    const [first, last] = [fixedPoint(reaction, -1), fixedPoint(reaction, 1)];
    if (beta * reaction(-far) < 0 && low < first) return `States below ${number(first)}${where} may diverge to −∞: ${why}.`;
    if (beta * reaction(far) > 0 && high > last) return `States above ${number(last)}${where} may diverge to ∞: ${why}.`;
  }
  return null;
}

/** Outermost of the zeros −1, 0 and 1 of a reaction, on one side. */
function fixedPoint(reaction, side) {
  const zeros = [-1, 0, 1].filter((h) => Math.abs(reaction(h)) < 1e-12);
  return side < 0 ? Math.min(...zeros) : Math.max(...zeros);
}
