// The map: the best strokes over a grid of two demands, and the point that one drags over it.

const MEASURES = ["cost", "efficiency", "amplitude"];
const WARM = {light: ["#fbf3df", "#e0a24a", "#74430f"], dark: ["#2b2417", "#8d6023", "#ffd488"]};

// What is known of a map, as `told_map` of geodyn tells it: at each point of the grid a row of numbers of its best stroke.
class StrokeMap {
  constructor(told) {
    Object.assign(this, told);
    this.axes = [told.displacement, told.turn];
    this.counts = this.axes.map(axis => axis.length);
    const values = doubles(told.table), width = values.length / this.counts[0] / this.counts[1];
    this.n = (width - 10) / 3;
    this.rows = Array.from({length: this.counts[0] * this.counts[1]}, (_, k) => values.subarray(k * width, (k + 1) * width));
    this.matrix = doubles(told.basis);
  }
  row(i, j) {  // null where no stroke is known
    const row = this.rows[i * this.counts[1] + j];
    return isFinite(row[0]) ? row : null;
  }
  told(demand) { return demand.map((x, a) => `${this.names[a]} ${round(x, 4)}${this.units[a] && ` ${this.units[a]}`}`).join(", "); }
  within(demand) { return demand.map((x, a) => Math.min(this.axes[a][this.counts[a] - 1], Math.max(this.axes[a][0], x))); }
  // The corners of the cell of a demand, and how near each is, from 0 to 1; the nearest first.
  corners(demand) {
    const cell = this.axes.map((axis, a) => Math.max(0, Math.min(axis.length - 2, axis.filter(x => x <= demand[a]).length - 1)));
    const part = cell.map((i, a) => (demand[a] - this.axes[a][i]) / (this.axes[a][i + 1] - this.axes[a][i]));
    const list = [[0, 0], [0, 1], [1, 0], [1, 1]].map(([a, b]) =>
      ({i: cell[0] + a, j: cell[1] + b, near: (a ? part[0] : 1 - part[0]) * (b ? part[1] : 1 - part[1])}));
    return list.sort((p, q) => q.near - p.near);
  }
  // The stroke for a demand and its cost, from the nearest corner that has one: the stroke to first order, the cost to
  // second. Null where no corner has one.
  predict(demand) {
    const corner = this.corners(demand).find(({i, j}) => this.row(i, j));
    if (!corner) return null;
    const {n, axes} = this, {i, j} = corner, row = this.row(i, j), [u, v] = [demand[0] - axes[0][i], demand[1] - axes[1][j]];
    const [cost, , , , p, q, h11, h12, h21, h22] = row, x = row.subarray(10, 10 + n), along = row.subarray(10 + n, 10 + 2 * n), turning = row.subarray(10 + 2 * n);
    return {stroke: this.stroke(x.map((c, k) => c + u * along[k] + v * turning[k])),
      cost: cost + u * p + v * q + (h11 * u * u + (h12 + h21) * u * v + h22 * v * v) / 2};
  }
  stroke(x) {  // the Fourier series of the coefficients
    const {n, matrix, harmonics: K} = this, m = matrix.length / n / (1 + 2 * K);
    const all = Array.from({length: matrix.length / n}, (_, k) => x.reduce((sum, c, l) => sum + matrix[k * n + l] * c, 0));
    const rows = start => Array.from({length: m}, (_, i) => all.slice(start + i * K, start + (i + 1) * K));
    return {mean: all.slice(0, m), cosine: rows(m), sine: rows(m + m * K)};
  }
  // One of the measures between the points, by those of the corners that have a stroke; NaN next to one that has none.
  value(demand, measure) {
    const list = this.corners(demand), here = list.filter(({i, j}) => this.row(i, j));
    if (!this.row(list[0].i, list[0].j)) return NaN;
    const sum = of => here.reduce((s, c) => s + c.near * of(c), 0);
    return sum(({i, j}) => this.row(i, j)[measure]) / sum(() => 1);
  }
  // The edges of the regions that are nearer to one point than to others.
  edges(a) {
    const axis = this.axes[a];
    return [axis[0], ...axis.slice(1).map((x, k) => (x + axis[k]) / 2), axis[axis.length - 1]];
  }
}

class MapPanel {
  constructor(parent, map, dark, measure) {
    const {left, top, side} = BOX, [low, high] = [0, 1].map(end => map.axes.map(axis => axis[end * (axis.length - 1)]));
    Object.assign(this, {map, measure});
    this.to = r => [left + side * (r[0] - low[0]) / (high[0] - low[0]), top + side * (1 - (r[1] - low[1]) / (high[1] - low[1]))];
    this.from = p => [low[0] + (p[0] - left) / side * (high[0] - low[0]), low[1] + (1 - (p[1] - top) / side) * (high[1] - low[1])];
    this.reach = high.map((x, a) => x - low[a]);
    this.at = low.map((x, a) => (x + high[a]) / 2);
    const svg = this.svg = made("svg", {viewBox: `0 0 ${left + side + BOX.right} ${top + side + BOX.bottom}`, role: "group", "aria-label": "map of strokes"}, parent);
    made("title", {}, svg, "map: the best stroke for each displacement and turn; drag the point");
    const hatch = made("pattern", {id: "gap", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"}, made("defs", {}, svg));
    made("path", {d: "M0 0V7", stroke: "var(--soft)", "stroke-width": 2}, hatch);
    this.image = made("image", {class: "field", x: left, y: top, width: side, height: side, preserveAspectRatio: "none"}, svg);
    const marks = made("g", {"pointer-events": "none"}, svg), [across, upwards] = [0, 1].map(a => map.edges(a));
    const box = (i, j) => [this.to([across[i], upwards[j + 1]]), this.to([across[i + 1], upwards[j]])], [N, M] = map.counts;
    const branch = (i, j) => i < N && j < M ? map.row(i, j)?.[3] ?? null : null, lines = [];
    for (let i = 0; i < N; i++) {
      for (let j = 0; j < M; j++) {
        const [[x0, y0], [x1, y1]] = box(i, j), here = branch(i, j), differs = other => here !== null && other !== null && other !== here;
        if (here === null) made("rect", {class: "gap", x: x0, y: y0, width: x1 - x0, height: y1 - y0, fill: "url(#gap)"}, marks);
        else { const [cx, cy] = this.to([map.axes[0][i], map.axes[1][j]]); made("circle", {cx, cy, r: 1.4, fill: "var(--ink)", opacity: 0.5}, marks); }
        if (differs(branch(i + 1, j))) lines.push(`M${points([[x1, y0]])}L${points([[x1, y1]])}`);
        if (differs(branch(i, j + 1))) lines.push(`M${points([[x0, y0]])}L${points([[x1, y0]])}`);
      }
    }
    made("path", {class: "border", d: lines.join(""), fill: "none", stroke: "var(--ink)", "stroke-width": 1.6, "stroke-dasharray": "5 3"}, marks);
    made("rect", {x: left, y: top, width: side, height: side, fill: "none", stroke: "var(--line)"}, marks);
    const label = a => map.names[a] + (map.units[a] && ` (${map.units[a]})`);
    for (const value of ticks(low[0], high[0])) made("text", {x: this.to([value, 0])[0], y: top + side + 15, "text-anchor": "middle"}, svg, value);
    for (const value of ticks(low[1], high[1])) made("text", {x: left - 5, y: this.to([0, value])[1] + 4, "text-anchor": "end"}, svg, value);
    made("text", {"text-anchor": "middle", x: left + side / 2, y: top + side + 33}, svg, label(0));
    made("text", {"text-anchor": "middle", transform: `translate(13 ${top + side / 2}) rotate(-90)`}, svg, label(1));
    this.heading = made("text", {x: left, y: 17}, svg);
    this.handle = made("circle", {class: "handle", r: 7, stroke: "var(--ink)", "stroke-width": 1.8, tabindex: 0, role: "button"}, svg);
    this.paint(dark);
    this.draw(null);
  }
  paint(dark) {
    const {map, measure} = this, [a, b, c] = WARM[dark ? "dark" : "light"], pixels = 120, canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    const known = map.rows.map(row => row[measure]).filter(isFinite), [low, high] = [Math.min(...known), Math.max(...known)];
    const scale = Array.from({length: 11}, (_, n) => n < 5 ? blend(a, b, n / 5) : blend(b, c, (n - 5) / 5));
    canvas.width = canvas.height = pixels;
    const image = pen.createImageData(pixels, pixels), {left, top, side} = BOX;
    for (let y = 0; y < pixels; y++) {
      for (let x = 0; x < pixels; x++) {
        const here = map.value(this.from([left + (x + 0.5) / pixels * side, top + (y + 0.5) / pixels * side]), measure);
        if (isFinite(here)) image.data.set([...shade(scale, 2 * (here - low) / (high - low || 1) - 1), 255], 4 * (y * pixels + x));
      }
    }
    pen.putImageData(image, 0, 0);
    this.image.setAttribute("href", canvas.toDataURL());
    this.heading.textContent = `${MEASURES[measure]}: ${low.toPrecision(3)} to ${high.toPrecision(3)}`;
  }
  draw(demand) {  // the point; hollow while the stroke is another than that of the point
    this.at = demand ?? this.at;
    const [cx, cy] = this.to(this.at), label = `point of the map at ${this.map.told(this.at)}; arrow keys move it`;
    Object.entries({cx, cy, fill: demand ? "var(--blue)" : "var(--ground)", "aria-label": label})
      .forEach(([key, value]) => this.handle.setAttribute(key, value));
  }
}
