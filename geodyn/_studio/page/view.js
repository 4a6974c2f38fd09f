// The view: the body that swims, from its outlines on a grid, or its axes if it has no picture in the plane.

class View {
  constructor(canvas, body, look) {
    Object.assign(this, {canvas, pen: canvas.getContext("2d"), kind: body.drawing, look});
    if (look && look.outline) {
      const [parts, count, D] = look.shape, values = Float32Array.from(new Int16Array(bytes(look.outline)), q => q === -32768 ? NaN : q / 32767 * look.scale);
      Object.assign(this, {parts, count, D, values});
      this.out = new Float64Array(parts * count * D);
    }
  }
  // The path over several strokes, and the frame of the picture that holds it.
  take(field, stroke, path, outlines = null) {
    Object.assign(this, {field, stroke, group: field.group, path, outlines});
    this.grid = this.values ? new Grid(this.values, this.look.size, field.lower, field.upper) : null;
    this.hold([0, 1, 2].flatMap(s => [0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1].flatMap(t => this.lines(s + t).flat())));
  }
  hold(all) {  // the frame of the picture
    const known = all.filter(p => p.every(isFinite));
    const low = [0, 1].map(a => Math.min(...known.map(p => p[a]))), high = [0, 1].map(a => Math.max(...known.map(p => p[a])));
    this.centre = low.map((x, a) => (x + high[a]) / 2);
    this.half = low.map((x, a) => Math.max((high[a] - x) / 2, 1e-9));
  }
  pose(t) {  // after t strokes
    const whole = Math.min(2, Math.floor(t)), rest = (t - whole) * STEPS, n = Math.min(STEPS - 1, Math.floor(rest)), part = rest - n;
    const {d} = this.group, here = combine([1 - part, this.path[n]], [part, this.path[n + 1]]);
    let g = identity(d);
    for (let k = 0; k < whole; k++) g = product(g, this.path[STEPS], d);
    return product(g, here, d);
  }
  // Lines [parts][points][2] of the body at time t.
  lines(t) {
    const g = this.pose(t), {d} = this.group, turn = t % 1;
    if (this.kind === "axes") return this.axes(g);
    let local;
    if (this.outlines) local = this.outlines[Math.round(turn * STEPS)];
    else {
      const r = shapeAt(this.stroke, turn, new Array(this.stroke.mean.length));
      this.grid.at(...this.field.pair.map(i => r[i]), this.out);
      local = Array.from({length: this.parts}, (_, p) => Array.from({length: this.count}, (_, n) =>
        Array.from(this.out.subarray((p * this.count + n) * this.D, (p * this.count + n + 1) * this.D))));
    }
    return local.map(line => line.map(p => this.placed(g, p, d)));
  }
  placed(g, p, d) {
    if (this.kind === "disc") {
      const q = [0, 1, 2].map(i => g[i * d] * p[0] + g[i * d + 1] * p[1] + g[i * d + 2] * p[2]);
      return [q[0] / (1 + q[2]), q[1] / (1 + q[2])];
    }
    const {turns, translations} = this.group;
    const q = turns ? [g[0] * p[0] + g[1] * p[1], g[d] * p[0] + g[d + 1] * p[1]] : [...p];
    for (let a = 0; a < translations; a++) q[a] += g[a * d + d - 1];
    return q;
  }
  axes(g) {  // a box and the three axes of the frame, seen from one side; in the plane an arrow and two axes
    if (this.planar()) {
      return [[[0.5, 0], [-0.3, 0.25], [-0.3, -0.25], [0.5, 0]], [[0, 0], [0.8, 0]], [[0, 0], [0, 0.8]]].map(line => line.map(p => this.placed(g, p, this.group.d)));
    }
    const {d, homogeneous} = this.group, n = Math.min(3, homogeneous ? d - 1 : d), eye = ([x, y, z]) => [0.87 * (y - x), z - 0.5 * (x + y)];
    const at = v => eye([0, 1, 2].map(i => i < n ? v.reduce((s, x, j) => s + (j < n ? g[i * d + j] * x : 0), 0) + (homogeneous ? g[i * d + d - 1] : 0) : v[i]));
    const [a, b, c] = [0.9, 0.5, 0.25], rims = [];
    for (const z of [-c, c]) rims.push([[a, b, z], [-a, b, z], [-a, -b, z], [a, -b, z], [a, b, z]].map(at));
    for (const [x, y] of [[a, b], [-a, b], [-a, -b], [a, -b]]) rims.push([[x, y, -c], [x, y, c]].map(at));
    return [...rims, ...[0, 1, 2].map(i => [[0, 0, 0], [0, 1, 2].map(j => j === i ? 1.3 : 0)].map(at))];
  }
  planar() { return this.group.turns || (this.group.homogeneous && this.group.d < 4); }
  middle(t) {
    const g = this.pose(t), {d} = this.group;
    if (this.kind === "disc") return this.placed(g, [0, 0, 1], d);
    if (this.kind === "axes" && !this.planar()) return this.axes(g)[6][1];
    return this.placed(g, [0, 0], d);
  }
  thick(list, usual) { return list.length > 1 ? usual : 3 * usual; }  // a mass is a dot
  ground() {}
  words() {}
  draw(t, trail) {
    const {canvas, pen} = this, ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
    if (!w) return;
    if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(h * ratio);
    }
    const scale = this.path ? Math.min((w - 40) / 2 / this.half[0], (h - 40) / 2 / this.half[1]) : 1;
    const to = p => [w / 2 + scale * (p[0] - this.centre[0]), h / 2 - scale * (p[1] - this.centre[1])];
    const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, w, h);
    if (!this.path) return;
    pen.lineCap = pen.lineJoin = "round";
    const line = (list, ink, width) => {
      pen.strokeStyle = ink;
      pen.lineWidth = width;
      pen.beginPath();
      list.forEach((p, n) => n ? pen.lineTo(...to(p)) : pen.moveTo(...to(p)));
      if (list.length === 1) pen.lineTo(...to(list[0]));
      pen.stroke();
    };
    if (this.kind === "disc") { pen.strokeStyle = colour("--line"); pen.lineWidth = 1; pen.beginPath(); pen.arc(...to([0, 0]), scale, 0, 7); pen.stroke(); }
    this.ground(line, colour);
    this.lines(0).forEach(list => line(list, colour("--line"), this.thick(list, 3)));
    const from = Math.max(0, t - trail), count = Math.ceil((t - from) * 48);
    if (count > 0) line(Array.from({length: count + 1}, (_, n) => this.middle(from + (t - from) * n / count)), colour("--gold"), 2);
    const lines = this.lines(t), own = ["--red", "--good", "--gold"], first = this.kind !== "axes" ? lines.length : this.planar() ? 1 : 6;
    lines.forEach((list, n) => line(list, n < first ? colour("--blue") : colour(own[n - first]), this.thick(list, 4)));
    if (this.kind === "disc" || this.kind === "places") { this.words(pen, to, colour("--soft")); return; }  // lengths are not those of the page
    const [long] = [5, 2, 1].map(f => f * 10 ** Math.floor(Math.log10(w / 4 / scale))).filter(s => s * scale <= w / 4);
    pen.fillStyle = colour("--soft");
    pen.fillRect(10, h - 12, long * scale, 2);
    pen.font = "12px system-ui, sans-serif";
    pen.fillText(String(round(long, 3)), 10, h - 17);
  }
}

// The view of a body whose places are computed by the server: `told` for the stroke `of`.
class Places extends View {
  constructor(canvas, body) {
    super(canvas, body, null);
    this.of = null;
  }
  take() {}  // what the page knows does not say where the body is
  show(told, stroke) {
    const {shape: [parts, count], scale, frames} = told, whole = text => Float32Array.from(new Int16Array(bytes(text)), q => q === -32768 ? NaN : q / 32767 * scale);
    const lines = whole(told.lines), way = whole(told.way);
    Object.assign(this, {of: stroke, told, parts, count, frames, path: way});
    this.at = t => {  // a picture of the body, and where its frame is
      const n = Math.min(way.length / 2 - 2, Math.floor(t * frames)), part = t * frames - n, width = 2 * parts * count;
      const between = (list, wide, i) => (1 - part) * list[n * wide + i] + part * list[(n + 1) * wide + i];
      const line = p => Array.from({length: count}, (_, k) => [0, 1].map(a => between(lines, width, 2 * (p * count + k) + a)));
      return {lines: Array.from({length: parts}, (_, p) => line(p)), middle: [0, 1].map(a => between(way, 2, a))};
    };
    const pairs = list => Array.from({length: list.length / 2}, (_, n) => [list[2 * n], list[2 * n + 1]]);
    this.hold([...pairs(lines), ...told.behind.flat(), ...told.arrows.flatMap(arrow => arrow.line)]);
  }
  lines(t) { return this.at(t).lines; }
  middle(t) { return this.at(t).middle; }
  ground(line, colour) {
    this.told.behind.forEach(list => line(list, colour("--line"), 0.6));
    this.told.arrows.forEach(arrow => line(arrow.line, colour("--soft"), 1));
  }
  words(pen, to, ink) {
    pen.fillStyle = ink;
    pen.font = "12px system-ui, sans-serif";
    for (const {line, name} of this.told.arrows) { const [x, y] = to(line[1]); pen.fillText(name, x + 4, y - 4); }
  }
}
const viewOf = (canvas, body, look) => body.drawing === "places" ? new Places(canvas, body) : new View(canvas, body, look);
