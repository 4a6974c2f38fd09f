"use strict";
// Numbers: arrays from base64, interpolation on grids, small matrices, the Magnus method of geodyn.

const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
const floats = text => new Float32Array(bytes(text));
const doubles = text => new Float64Array(bytes(text));

// Lagrange's polynomials of degree five on the six grid points around x, which is counted in cells.
const ORDER = 6, DENOMINATORS = [-120, 24, -12, 12, -24, 120];
function lagrange(x, size, weights) {
  const first = Math.min(size - ORDER, Math.max(0, Math.floor(x) - 2)), s = x - first;
  for (let i = 0; i < ORDER; i++) {
    let product = 1;
    for (let j = 0; j < ORDER; j++) if (j !== i) product *= s - j;
    weights[i] = product / DENOMINATORS[i];
  }
  return first;
}

// Values [size, size, width] over the box from lower to upper; at(r, out) gives those at a shape r[2].
class Grid {
  constructor(values, size, lower, upper) {
    Object.assign(this, {values, size, lower, upper, width: values.length / size ** 2});
    this.u = new Float64Array(ORDER);
    this.v = new Float64Array(ORDER);
  }
  at(x, y, out) {
    const {values, size, width, lower, upper, u, v} = this, cells = size - 1;
    const i = lagrange((x - lower[0]) / (upper[0] - lower[0]) * cells, size, u);
    const j = lagrange((y - lower[1]) / (upper[1] - lower[1]) * cells, size, v);
    out.fill(0);
    for (let a = 0; a < ORDER; a++) {
      for (let b = 0; b < ORDER; b++) {
        const weight = u[a] * v[b], start = ((i + a) * size + j + b) * width;
        for (let c = 0; c < width; c++) out[c] += weight * values[start + c];
      }
    }
    return out;
  }
}

// Matrices [d, d] as flat arrays. `out` is another array than the factors.
function product(a, b, d, out = new Float64Array(d * d)) {
  for (let i = 0; i < d; i++) {
    for (let j = 0; j < d; j++) {
      let sum = 0;
      for (let k = 0; k < d; k++) sum += a[i * d + k] * b[k * d + j];
      out[i * d + j] = sum;
    }
  }
  return out;
}
const identity = d => Float64Array.from({length: d * d}, (_, i) => i % (d + 1) === 0 ? 1 : 0);
const combine = (...pairs) => pairs[0][1].map((_, i) => pairs.reduce((sum, [s, x]) => sum + s * x[i], 0));
const size = a => a.reduce((most, x) => Math.max(most, Math.abs(x)), 0);

function exponential(a, d) {  // halved until small, then Taylor's series by Horner's rule, then squared
  const halvings = Math.max(0, Math.ceil(Math.log2(Math.max(size(a), 1e-300) / 0.05))), part = 2 ** -halvings;
  let sum = identity(d), other = new Float64Array(d * d);
  for (let k = 8; k >= 1; k--) {
    product(a, sum, d, other);
    for (let i = 0; i < d * d; i++) sum[i] = other[i] * part / k + (i % (d + 1) === 0 ? 1 : 0);
  }
  for (let k = 0; k < halvings; k++) [sum, other] = [product(sum, sum, d, other), sum];
  return sum;
}

function inverse(a, d) {  // Gauss and Jordan, with pivots
  const m = Array.from({length: d}, (_, i) => [...a.slice(i * d, i * d + d), ...identity(d).slice(i * d, i * d + d)]);
  for (let k = 0; k < d; k++) {
    let best = k;
    for (let i = k + 1; i < d; i++) if (Math.abs(m[i][k]) > Math.abs(m[best][k])) best = i;
    [m[k], m[best]] = [m[best], m[k]];
    const pivot = m[k][k];
    m[k] = m[k].map(x => x / pivot);
    for (let i = 0; i < d; i++) if (i !== k) { const f = m[i][k]; m[i] = m[i].map((x, j) => x - f * m[k][j]); }
  }
  return Float64Array.from(m.flatMap(row => row.slice(d)));
}

function logarithm(g, d) {  // square roots by Denman and Beavers until near the identity, then the series of artanh
  let a = g, roots = 0;
  while (size(combine([1, a], [-1, identity(d)])) > 0.05 && roots < 20) {
    let y = a, z = identity(d);
    for (let k = 0; k < 30; k++) {
      const next = combine([0.5, y], [0.5, inverse(z, d)]);
      z = combine([0.5, z], [0.5, inverse(y, d)]);
      const change = size(combine([1, next], [-1, y]));
      y = next;
      if (change < 1e-14) break;
    }
    a = y;
    roots++;
  }
  const t = product(combine([1, a], [-1, identity(d)]), inverse(combine([1, a], [1, identity(d)]), d), d);
  const square = product(t, t, d);
  let power = t, sum = t;
  for (let k = 3; k <= 13; k += 2) {
    power = product(power, square, d);
    sum = combine([1, sum], [1 / k, power]);
  }
  return sum.map(x => 2 * 2 ** roots * x);
}

// The algebra of a group, by its structure constants: [a, b, c, x] for a component c of the bracket of the generators a
// and b.
class Algebra {
  constructor({translations, names, turns, homogeneous}, dim) {
    Object.assign(this, {translations, names, turns, homogeneous, dim, structure: []});
    this.work = Array.from({length: 7}, () => new Float64Array(dim));
  }
  bracket(u, v, out) {
    out.fill(0);
    for (const [a, b, c, x] of this.structure) out[c] += x * u[a] * v[b];
  }
  // The exponent of one step of order six from the velocities at its three Gauss nodes, as `increment` of geodyn has it.
  increment([x1, x2, x3], h) {
    const {dim, work: [a1, a2, a3, c1, c2, u, v]} = this, root = Math.sqrt(15) / 3;
    for (let i = 0; i < dim; i++) {
      a1[i] = h * x2[i];
      a2[i] = root * h * (x3[i] - x1[i]);
      a3[i] = 10 / 3 * h * (x3[i] - 2 * x2[i] + x1[i]);
    }
    this.bracket(a2, a1, c1);
    for (let i = 0; i < dim; i++) u[i] = (2 * a3[i] + c1[i]) / 60;
    this.bracket(a1, u, c2);
    for (let i = 0; i < dim; i++) { u[i] = -20 * a1[i] - a3[i] + c1[i]; v[i] = a2[i] + c2[i]; }
    this.bracket(u, v, c2);
    for (let i = 0; i < dim; i++) u[i] = a1[i] + a3[i] / 12 - c2[i] / 240;
    return u;
  }
}
// A group of matrices, spanned by generators.
class Matrices extends Algebra {
  constructor(told) {
    super(told, told.generators.length);
    this.d = told.generators[0].length;
    this.generators = told.generators.map(e => Float64Array.from(e.flat()));
    this.squares = this.generators.map(e => e.reduce((sum, x) => sum + x * x, 0));
    const {d} = this;
    this.generators.forEach((e, a) => this.generators.forEach((f, b) =>
      this.vee(combine([1, product(e, f, d)], [-1, product(f, e, d)])).forEach((x, c) => { if (x) this.structure.push([a, b, c, x]); })));
  }
  hat(xi) {
    const out = new Float64Array(this.d ** 2);
    this.generators.forEach((e, a) => { for (let i = 0; i < out.length; i++) out[i] += xi[a] * e[i]; });
    return out;
  }
  vee(m) { return this.generators.map((e, a) => e.reduce((sum, x, i) => sum + x * m[i], 0) / this.squares[a]); }
  identity() { return identity(this.d); }
  log(g) { return this.vee(logarithm(g, this.d)); }
  step(g, xi, h) { return product(g, exponential(this.hat(this.increment(xi, h)), this.d), this.d); }
}
// Isometries that are no matrices: an element is its exponential coordinates x, and the algebra is all that a product
// needs. Along exp(x) = g exp(s u) the velocity u is dexp(−x) x', with dexp(−x) = ∫ exp(−t ad x) dt from 0 to 1.
class Exponentials extends Algebra {
  constructor(told) {
    super(told, told.structure.length);
    told.structure.forEach((rows, c) => rows.forEach((row, a) => row.forEach((x, b) => { if (x) this.structure.push([a, b, c, x]); })));
  }
  identity() { return new Float64Array(this.dim); }
  log(x) { return [...x]; }
  rate(x, u) {
    const {dim: k} = this, block = new Float64Array(4 * k * k);  // exp of [[−ad, 1], [0, 0]] has the integral beside it
    for (const [a, b, c, s] of this.structure) block[2 * k * c + b] -= s * x[a];
    for (let i = 0; i < k; i++) block[2 * k * i + k + i] = 1;
    const whole = exponential(block, 2 * k), dexp = new Float64Array(k * k);
    for (let i = 0; i < k; i++) for (let j = 0; j < k; j++) dexp[i * k + j] = whole[2 * k * i + k + j];
    const back = inverse(dexp, k);
    return u.map((_, i) => u.reduce((sum, v, j) => sum + back[i * k + j] * v, 0));
  }
  step(x, xi, h) {  // one step of Runge and Kutta in s
    const u = this.increment(xi, h), a = this.rate(x, u), b = this.rate(combine([1, x], [0.5, a]), u);
    const c = this.rate(combine([1, x], [0.5, b]), u), d = this.rate(combine([1, x], [1, c]), u);
    return combine([1, x], [1 / 6, a], [1 / 3, b], [1 / 3, c], [1 / 6, d]);
  }
}
const groupOf = told => told.structure ? new Exponentials(told) : new Matrices(told);
const NODES = [0.5 - Math.sqrt(0.15), 0.5, 0.5 + Math.sqrt(0.15)], WEIGHTS = [5 / 18, 8 / 18, 5 / 18];

// Contours where a component of a grid is zero: segments [[x, y], [x, y]] in cells, by marching squares.
function zeroes(values, size, width, component) {
  const at = (i, j) => values[(i * size + j) * width + component], segments = [];
  for (let i = 0; i + 1 < size; i++) {
    for (let j = 0; j + 1 < size; j++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], f = corners.map(c => at(...c)), cuts = [];
      if (!f.every(isFinite)) continue;
      for (let k = 0; k < 4; k++) {
        const n = (k + 1) % 4;
        if ((f[k] < 0) !== (f[n] < 0)) {
          const s = f[k] / (f[k] - f[n]);
          cuts.push([0, 1].map(a => corners[k][a] + s * (corners[n][a] - corners[k][a])));
        }
      }
      for (let k = 0; k + 1 < cuts.length; k += 2) segments.push([cuts[k], cuts[k + 1]]);
    }
  }
  return segments;
}
