// Scales from values to pixels, and ticks.

/** Function from [low, high] to [from, to], with its ends, its inverse and its ticks. */
function scale(axis, values, [from, to]) {
  const finite = values.filter((value) => value !== null && (!axis.log || value > 0));
  let [low, high] = axis.limits ?? ends(finite, axis.log);
  if (axis.log) [low, high] = [Math.log10(low), Math.log10(high)];
  if (low === high) [low, high] = [low - 0.5, high + 0.5];
  const place = (value) => from + ((value - low) / (high - low)) * (to - from);
  const found = (value) => {
    if (value === null) return null;
    if (!axis.log) return place(value);
    return place(value > 0 ? Math.log10(value) : low - 10 * (high - low)); // zero is far below the axis
  };
  const room = Math.abs(to - from);
  found.ticks = axis.ticks.length
    ? axis.ticks.map(([value, text]) => ({ at: place(value), text }))
    : (axis.log ? decades : steps)(low, high, room).map(([value, text]) => ({ at: place(value), text }));
  return found;
}

/** Range of the values, with a margin. */
function ends(values, log) {
  if (!values.length) return log ? [0.1, 1] : [0, 1];
  const [low, high] = [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))];
  if (log) return [low / 1.3, high * 1.3];
  const air = (high - low || 1) * 0.05;
  return [low - air, high + air];
}

/** Round tick values from low to high. */
function steps(low, high, room) {
  const rough = (high - low) / Math.max(2, room / 55);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
    const value = Number((k * step).toPrecision(10));
    found.push([value, number(value)]);
  }
  return found;
}

/** Powers of ten between 10^low and 10^high, with multiples of 2 and 5 if there are few. */
function decades(low, high, room) {
  const every = Math.max(1, Math.ceil((high - low) / Math.max(2, room / 34)));
  const found = [];
  for (let k = Math.ceil(low - 1e-9); k <= high + 1e-9; k += 1) {
    if (k % every === 0) found.push([k, k >= 0 && k < 4 ? String(10 ** k) : `10${raised(k)}`]);
  }
  if (found.length > 2) return found;
  const few = [];
  for (let k = Math.floor(low); k <= high; k += 1) {
    for (const digit of [1, 2, 5]) {
      const at = k + Math.log10(digit);
      if (at >= low && at <= high) few.push([at, number(Number((digit * 10 ** k).toPrecision(6)))]);
    }
  }
  return few;
}
