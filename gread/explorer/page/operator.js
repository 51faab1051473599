// Ã as a sparse matrix in CSR format, and its spectrum without an eigendecomposition.

/**
 * Normalized adjacency of an undirected graph.
 *
 * @param count number of nodes
 * @param pairs node numbers [a, b, a, b, ...], each edge once
 * @param weights edge weights
 * @param options normalization: "symmetric", "row" or "column"; loops: weight of a loop at every node, 0 for none
 */
function operatorOf(count, pairs, weights, { normalization, loops }) {
  const length = new Int32Array(count + 1);
  const each = (visit) => {
    for (let e = 0; e < weights.length; e += 1) {
      const [a, b, w] = [pairs[2 * e], pairs[2 * e + 1], weights[e]];
      visit(a, b, w);
      if (a !== b) visit(b, a, w);
    }
    if (loops > 0) for (let i = 0; i < count; i += 1) visit(i, i, loops);
  };
  const degree = new Float64Array(count);
  each((i, j, w) => {
    length[i + 1] += 1;
    degree[i] += w;
  });
  for (let i = 0; i < count; i += 1) length[i + 1] += length[i];
  const start = length;
  const next = start.slice(0, count);
  const column = new Int32Array(start[count]);
  const weight = new Float64Array(start[count]);
  const power = (i, exponent) => (degree[i] > 0 ? degree[i] ** exponent : 0);
  const entry = {
    symmetric: (i, j, w) => w * power(i, -0.5) * power(j, -0.5),
    row: (i, j, w) => w * power(i, -1),
    column: (i, j, w) => w * power(j, -1),
  }[normalization];
  each((i, j, w) => {
    column[next[i]] = j;
    weight[next[i]] = entry(i, j, w);
    next[i] += 1;
  });
  return { count, start, column, weight, degree, normalization };
}

/** Write Ã h to ``out``. */
function multiply({ count, start, column, weight }, h, out) {
  for (let i = 0; i < count; i += 1) {
    let sum = 0;
    for (let e = start[i]; e < start[i + 1]; e += 1) sum += weight[e] * h[column[e]];
    out[i] = sum;
  }
  return out;
}

/** Dirichlet energy 1/N Σ_i Σ_j A[i, j] (h_i − h_j)², Eq. (18); each edge counts in both directions. */
function dirichletEnergy(count, pairs, weights, h) {
  let sum = 0;
  for (let e = 0; e < weights.length; e += 1) {
    const apart = h[pairs[2 * e]] - h[pairs[2 * e + 1]];
    sum += weights[e] * apart * apart;
  }
  return (2 * sum) / count;
}

/**
 * Symmetric matrix similar to Ã. It has the same eigenvalues; ``to(h)`` is h in its basis.
 *
 * D^-1 A and A D^-1 become D^-1/2 A D^-1/2 if h is multiplied by a power ±1/2 of the degree.
 */
function symmetricForm(operator) {
  const exponent = { symmetric: 0, row: 0.5, column: -0.5 }[operator.normalization];
  const root = operator.degree.map((d) => (d > 0 ? d ** exponent : 1));
  const weight = operator.weight.slice();
  for (let i = 0; i < operator.count; i += 1) {
    for (let e = operator.start[i]; e < operator.start[i + 1]; e += 1) {
      weight[e] *= root[i] / root[operator.column[e]];
    }
  }
  return { ...operator, weight, to: (h) => h.map((value, i) => value * root[i]) };
}

/** Smallest and largest eigenvalue of Ã by the Lanczos method. */
function extremes(operator) {
  const { count } = operator;
  const symmetric = symmetricForm(operator);
  const size = Math.min(count, 80);
  const norm = (v) => Math.sqrt(v.reduce((sum, part) => sum + part * part, 0));
  const guess = Float64Array.from({ length: count }, (_, i) => Math.cos(1.7 * i + 0.3));
  const long = norm(guess);
  let q = guess.map((part) => part / long);
  let before = new Float64Array(count);
  const [alphas, betas] = [[], []];
  const w = new Float64Array(count);
  for (let k = 0; k < size; k += 1) {
    multiply(symmetric, q, w);
    let alpha = 0;
    for (let i = 0; i < count; i += 1) alpha += w[i] * q[i];
    alphas.push(alpha);
    const last = k === 0 ? 0 : betas[k - 1];
    for (let i = 0; i < count; i += 1) w[i] -= alpha * q[i] + last * before[i];
    const beta = norm(w);
    if (beta < 1e-10) break;
    betas.push(beta);
    before = q;
    q = w.map((part) => part / beta);
  }
  return [eigenvalueBelow(alphas, betas, 0), eigenvalueBelow(alphas, betas, alphas.length - 1)];
}

/** Eigenvalue ``index`` of a tridiagonal matrix, in ascending order, by bisection. */
function eigenvalueBelow(diagonal, beside, index) {
  const below = (x) => {
    let [found, pivot] = [0, 1];
    for (let k = 0; k < diagonal.length; k += 1) {
      pivot = diagonal[k] - x - (k === 0 ? 0 : beside[k - 1] ** 2 / (pivot || 1e-300));
      if (pivot < 0) found += 1;
    }
    return found;
  };
  let [low, high] = [-2, 2];
  for (let turn = 0; turn < 60; turn += 1) {
    const middle = (low + high) / 2;
    if (below(middle) > index) high = middle;
    else low = middle;
  }
  return (low + high) / 2;
}

const MOMENTS = 48;

/**
 * Spectral density of h² over the eigenvalues of Ã, evaluated at ``lambdas``.
 *
 * Kernel polynomial method: Chebyshev moments h·T_k(Ã) h, smoothed by the Jackson kernel. The number of
 * products does not depend on the size of the graph.
 */
function spectralDensity(symmetric, h, lambdas) {
  const n = symmetric.count;
  let before = symmetric.to(h);
  const first = before;
  let now = multiply(symmetric, before, new Float64Array(n));
  const dot = (v) => {
    let sum = 0;
    for (let i = 0; i < n; i += 1) sum += first[i] * v[i];
    return sum;
  };
  const moments = [dot(first), dot(now)];
  let next = new Float64Array(n);
  for (let k = 2; k < MOMENTS; k += 1) {
    multiply(symmetric, now, next);
    for (let i = 0; i < n; i += 1) next[i] = 2 * next[i] - before[i];
    moments.push(dot(next));
    [before, now, next] = [now, next, before === first ? new Float64Array(n) : before];
  }
  const angle = Math.PI / (MOMENTS + 1);
  const jackson = (k) => ((MOMENTS - k + 1) * Math.cos(angle * k) + Math.sin(angle * k) / Math.tan(angle)) / (MOMENTS + 1);
  return lambdas.map((lambda) => {
    const theta = Math.acos(Math.min(1, Math.max(-1, lambda)));
    let sum = moments[0];
    for (let k = 1; k < MOMENTS; k += 1) sum += 2 * jackson(k) * moments[k] * Math.cos(k * theta);
    return Math.max(0, sum / Math.PI); // density in the angle θ, which stays finite at λ = ±1
  });
}
