// Strokes: Fourier series {mean[m], cosine[m][K], sine[m][K]} of period 1, and what the hand does to them.

const zerosOf = (m, K) => Array.from({length: m}, () => new Array(K).fill(0));
const copied = stroke => JSON.parse(JSON.stringify(stroke));
const harmonicsOf = stroke => stroke.cosine[0].length;

function shapeAt(stroke, t, out, rate) {
  const K = harmonicsOf(stroke), m = stroke.mean.length;
  for (let i = 0; i < m; i++) { out[i] = stroke.mean[i]; if (rate) rate[i] = 0; }
  for (let k = 1; k <= K; k++) {
    const w = 2 * Math.PI * k, c = Math.cos(w * t), s = Math.sin(w * t);
    for (let i = 0; i < m; i++) {
      const a = stroke.cosine[i][k - 1], b = stroke.sine[i][k - 1];
      out[i] += a * c + b * s;
      if (rate) rate[i] += w * (b * c - a * s);
    }
  }
  return out;
}
const shapesOf = (stroke, count) => Array.from({length: count}, (_, n) => shapeAt(stroke, n / count, new Array(stroke.mean.length)));

function withHarmonics(stroke, K) {
  const fit = rows => rows.map(row => Array.from({length: K}, (_, k) => row[k] ?? 0));
  return {mean: [...stroke.mean], cosine: fit(stroke.cosine), sine: fit(stroke.sine)};
}

// The Fourier series through samples at equal times, [n][m].
function fitted(samples, K) {
  const n = samples.length, m = samples[0].length, stroke = {mean: new Array(m).fill(0), cosine: zerosOf(m, K), sine: zerosOf(m, K)};
  const top = Math.min(K, Math.floor((n - 1) / 2));
  samples.forEach((r, l) => r.forEach((x, i) => {
    stroke.mean[i] += x / n;
    for (let k = 1; k <= top; k++) {
      stroke.cosine[i][k - 1] += 2 / n * x * Math.cos(2 * Math.PI * k * l / n);
      stroke.sine[i][k - 1] += 2 / n * x * Math.sin(2 * Math.PI * k * l / n);
    }
  }));
  return stroke;
}

// A closed curve through points drawn by hand: at equal distances along them.
function alongPoints(points, K, count = 256) {
  const closed = [...points, points[0]], reach = [0];
  for (let i = 1; i < closed.length; i++) {
    reach.push(reach[i - 1] + Math.hypot(...closed[i].map((x, a) => x - closed[i - 1][a])));
  }
  const samples = [];
  for (let n = 0, i = 0; n < count; n++) {
    const s = n / count * reach[reach.length - 1];
    while (i + 2 < closed.length && reach[i + 1] <= s) i++;
    const part = (s - reach[i]) / (reach[i + 1] - reach[i] || 1);
    samples.push(closed[i].map((x, a) => x + part * (closed[i + 1][a] - x)));
  }
  return fitted(samples, K);
}

// Pull the stroke at time t by a shift of two variables: the rest follows less, the farther away in time (Fejér's kernel).
function pulled(stroke, t, pair, shift) {
  const next = copied(stroke), K = harmonicsOf(stroke);
  const part = Array.from({length: K}, (_, k) => 2 * (1 - (k + 1) / (K + 1))), sum = 1 + part.reduce((a, b) => a + b, 0);
  pair.forEach((i, a) => {
    next.mean[i] += shift[a] / sum;
    part.forEach((p, k) => {
      next.cosine[i][k] += shift[a] * p / sum * Math.cos(2 * Math.PI * (k + 1) * t);
      next.sine[i][k] += shift[a] * p / sum * Math.sin(2 * Math.PI * (k + 1) * t);
    });
  });
  return next;
}
function moved(stroke, pair, shift) {
  const next = copied(stroke);
  pair.forEach((i, a) => { next.mean[i] += shift[a]; });
  return next;
}
// Stretch all coefficients of the two variables so that what was at `from` (seen from the mean) comes to `to`.
function ellipseWith(stroke, pair, axis, to) {
  const next = copied(stroke), rows = axis ? next.sine : next.cosine;
  pair.forEach((i, a) => { rows[i][0] = to[a] - stroke.mean[i]; });
  return next;
}
function reversed(stroke) {
  const next = copied(stroke);
  next.sine = next.sine.map(row => row.map(x => -x));
  return next;
}
const round = (x, digits = 12) => +x.toPrecision(digits);
const flat = (stroke, pair) => stroke.mean.every((_, i) =>
  pair.includes(i) || [...stroke.cosine[i], ...stroke.sine[i]].every(x => Math.abs(x) < 1e-12));
