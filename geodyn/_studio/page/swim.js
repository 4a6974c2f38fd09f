// Swimming: where a stroke leads the body, what it costs, and what the area under the curvature predicts.

const STEPS = 128;  // of a stroke; also the pictures of it

class Field {  // the grids of a slice in one frame
  constructor(told, group) {
    const {size, lower, upper} = told, grid = text => new Grid(floats(text), size, lower, upper);
    Object.assign(this, {...told, group, form: grid(told.form), curvature: grid(told.curvature), metric: grid(told.metric)});
    this.area = new Grid(this.primitive(), size, lower, upper);
    this.k = group.dim;
  }
  // ∫ F dr₁ from the lower bound, on the grid: around a stroke its integral over dr₂ is that of F over the area, counted
  // as often as the stroke goes around. Simpson's rule in each cell, with the middle interpolated.
  primitive() {
    const {size, curvature} = this, k = curvature.width, out = new Float64Array(size * size * k), middle = new Float64Array(k);
    const step = (this.upper[0] - this.lower[0]) / (size - 1), across = (this.upper[1] - this.lower[1]) / (size - 1);
    const values = curvature.values;
    for (let i = 1; i < size; i++) {
      for (let j = 0; j < size; j++) {
        curvature.at(this.lower[0] + (i - 0.5) * step, this.lower[1] + j * across, middle);
        for (let c = 0; c < k; c++) {
          const here = (i * size + j) * k + c, before = ((i - 1) * size + j) * k + c;
          out[here] = out[before] + step / 6 * (values[before] + 4 * middle[c] + values[here]);
        }
      }
    }
    return out;
  }
  // The net motion in exponential coordinates, the cost, the area's prediction, and the poses.
  swim(stroke) {
    const {group, k, pair} = this, m = stroke.mean.length, r = new Float64Array(m), rate = new Float64Array(m);
    const form = new Float64Array(2 * k), metric = new Float64Array(3), area = new Float64Array(k), [i, j] = pair;
    let g = group.identity(), cost = 0;
    const predicted = new Array(k).fill(0), path = [g], h = 1 / STEPS, xi = NODES.map(() => new Float64Array(k));
    for (let n = 0; n < STEPS; n++) {
      for (let q = 0; q < 3; q++) {
        shapeAt(stroke, (n + NODES[q]) * h, r, rate);
        this.form.at(r[i], r[j], form);
        this.metric.at(r[i], r[j], metric);
        this.area.at(r[i], r[j], area);
        cost += h * WEIGHTS[q] * (metric[0] * rate[i] ** 2 + 2 * metric[1] * rate[i] * rate[j] + metric[2] * rate[j] ** 2);
        for (let c = 0; c < k; c++) {
          xi[q][c] = -(form[2 * c] * rate[i] + form[2 * c + 1] * rate[j]);
          predicted[c] -= h * WEIGHTS[q] * area[c] * rate[j];
        }
      }
      g = group.step(g, xi, h);
      path.push(g);
    }
    return {motion: group.log(g), cost, predicted, path};
  }
}
const inside = (field, stroke) => shapesOf(stroke, 96).every(r => field.pair.every((v, a) =>
  r[v] >= field.lower[a] - 1e-9 && r[v] <= field.upper[a] + 1e-9));

// The distance of a net motion: of its translations, or of all where there are none.
function distance(motion, group) {
  const part = group.translations ? motion.slice(0, group.translations) : motion;
  return Math.hypot(...part);
}
