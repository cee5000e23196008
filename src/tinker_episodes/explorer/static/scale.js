// Scales of charts: from values to pixels, and ticks at round values.

/** A linear scale. */
export function linear([from, to], [start, end]) {
  const span = to - from || 1;
  const scale = (value) => start + ((value - from) / span) * (end - start);
  scale.invert = (pixel) => from + ((pixel - start) / (end - start)) * span;
  return scale;
}

/** Round values that cover `[low, high]`, about `wanted` of them. */
export function ticks(low, high, wanted, whole = false) {
  if (low === high) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.7);
  if (whole) step = Math.max(1, Math.round(step));
  const found = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n++) {
    found.push(Number((n * step).toPrecision(12)));
  }
  return found;
}

/** A range that holds all values with some room, and zero where it is near. */
export function range(values, fixed = null) {
  const numbers = values.filter((value) => Number.isFinite(value));
  let low = Math.min(...numbers);
  let high = Math.max(...numbers);
  if (numbers.length === 0) [low, high] = [0, 1];
  if (fixed) return [Math.min(low, fixed[0]), Math.max(high, fixed[1])];
  if (low >= 0 && low < high * 0.5) low = 0;
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 1;
    return low === 0 ? [0, 1] : [low - room, high + room];
  }
  const room = (high - low) * 0.06;
  return [low === 0 ? 0 : low - room, high + room];
}

/** At most `most` points, each the mean of its neighbours: more than pixels can't be seen. */
export function thinned(points, most) {
  if (points.length <= most) return points;
  const size = Math.ceil(points.length / most);
  const found = [];
  for (let at = 0; at < points.length; at += size) {
    const bucket = points.slice(at, at + size).filter((point) => point.y !== null);
    if (bucket.length === 0) continue;
    const mean = (key) => bucket.reduce((sum, point) => sum + (point[key] ?? point.y), 0) / bucket.length;
    found.push({ ...bucket.at(-1), y: mean("y"), low: mean("low"), high: mean("high") });
  }
  return found;
}
