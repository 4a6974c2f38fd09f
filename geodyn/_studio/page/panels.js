// Panels: the curvature of each component with the stroke on it, as one SVG each.

const SVG = "http://www.w3.org/2000/svg";
const BOX = {left: 54, top: 26, side: 250, right: 14, bottom: 40}, HANDLES = 8, GRIP = 12;
const SCALES = {
  light: ["#053061", "#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b", "#67001f"],
  dark: ["#a8d2ff", "#6db0ec", "#3c7db8", "#2a5378", "#213649", "#1d232b", "#40292a", "#703c34", "#ae5848", "#e8866f", "#ffc0aa"],
};
const SHADES = {light: ["#f7f7f7", "#98a4b0"], dark: ["#1d232b", "#5a6976"]};
const rgb = colour => [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
const blend = (a, b, part) => "#" + rgb(a).map((c, k) => Math.round(c + part * (rgb(b)[k] - c)).toString(16).padStart(2, "0")).join("");
function shade(scale, x) {  // x from −1 to 1
  const place = Math.min(9.999, Math.max(0, 5 * (x + 1))), low = Math.floor(place), rest = place - low;
  return rgb(scale[low]).map((c, a) => c + rest * (rgb(scale[low + 1])[a] - c));
}
function made(name, attributes = {}, parent = null, text = null) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}
function ticks(low, high) {
  const step = 10 ** Math.floor(Math.log10((high - low) / 2)), wide = [1, 2, 2.5, 5, 10].map(f => f * step).find(s => (high - low) / s <= 5);
  const list = [];
  for (let k = Math.ceil(low / wide - 1e-9); k * wide <= high + 1e-9 * wide; k++) list.push(round(k * wide, 6));
  return list;
}
function placeIn(svg, event) {  // of the pointer, in the units of the picture
  const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  return [p.x, p.y];
}
const points = list => list.map(p => `${p[0].toFixed(2)},${p[1].toFixed(2)}`).join(" ");

class Panel {
  constructor(parent, component, field, variables, dark) {
    this.field = field;
    this.component = component;
    const {lower, upper} = field, {left, top, side} = BOX;
    this.to = r => [left + side * (r[0] - lower[0]) / (upper[0] - lower[0]), top + side * (1 - (r[1] - lower[1]) / (upper[1] - lower[1]))];
    this.from = p => [lower[0] + (p[0] - left) / side * (upper[0] - lower[0]), lower[1] + (1 - (p[1] - top) / side) * (upper[1] - lower[1])];
    const svg = this.svg = made("svg", {viewBox: `0 0 ${left + side + BOX.right} ${top + side + BOX.bottom}`, role: "group",
      "aria-label": this.about().label}, parent);
    made("title", {}, svg, this.about().title);
    this.image = made("image", {class: "field", x: left, y: top, width: side, height: side, preserveAspectRatio: "none"}, svg);
    const cells = field.size - 1, clip = `clip${component}`;
    made("rect", {x: left, y: top, width: side, height: side}, made("clipPath", {id: clip}, made("defs", {}, svg)));
    const inside = made("g", {"clip-path": `url(#${clip})`, "pointer-events": "none"}, svg);
    const where = c => this.to([0, 1].map(a => lower[a] + c[a] / cells * (upper[a] - lower[a])));
    made("path", {d: this.cuts().map(([a, b]) => `M${points([where(a)])}L${points([where(b)])}`).join(""), class: "zero", fill: "none",
      stroke: "var(--ink)", "stroke-width": 1}, inside);
    this.arrowed = made("path", {fill: "none", stroke: "var(--ink)", "stroke-width": 1}, inside);
    this.ellipses = made("path", {fill: "none", stroke: "var(--soft)", "stroke-width": 1.5}, inside);
    made("rect", {x: left, y: top, width: side, height: side, fill: "none", stroke: "var(--line)", "pointer-events": "none"}, svg);
    for (const value of ticks(lower[0], upper[0])) made("text", {x: this.to([value, 0])[0], y: top + side + 15, "text-anchor": "middle"}, svg, value);
    for (const value of ticks(lower[1], upper[1])) made("text", {x: left - 5, y: this.to([0, value])[1] + 4, "text-anchor": "end"}, svg, value);
    const axis = {"text-anchor": "middle"}, [first, second] = field.pair.map(i => variables[i]);
    made("text", {...axis, x: left + side / 2, y: top + side + 33}, svg, first);
    made("text", {...axis, transform: `translate(13 ${top + side / 2}) rotate(-90)`}, svg, second);
    this.heading = made("text", {x: left, y: 17}, svg);
    this.old = made("polygon", {fill: "none", stroke: "var(--soft)", "stroke-width": 1.5, "stroke-dasharray": "5 4"}, inside);
    this.halo = made("polygon", {fill: "none", stroke: "var(--ground)", "stroke-width": 5, "stroke-linejoin": "round"}, inside);
    this.line = made("polygon", {class: "stroke", fill: "none", stroke: "var(--ink)", "stroke-width": 2.2, "stroke-linejoin": "round"}, inside);
    this.arrows = made("path", {fill: "var(--ink)"}, inside);
    this.drawn = made("polyline", {fill: "none", stroke: "var(--gold)", "stroke-width": 2.5}, inside);
    this.box = made("g", {}, svg);
    this.handles = made("g", {}, svg);
    this.point = made("circle", {class: "point", r: 6, fill: "var(--gold)", stroke: "var(--ink)", "stroke-width": 1.5, "pointer-events": "none"}, svg);
    this.paint(dark);
  }
  about() {
    const name = this.field.group.names[this.component];
    return {label: `curvature of ${name}`, title: `F of ${name}: how much a small loop moves or turns the body`};
  }
  cuts() { return zeroes(this.field.curvature.values, this.field.size, this.field.k, this.component); }
  // What is painted: a grid, its value from the numbers there, the colours from −1 to 1, and the words above it.
  painted(dark) {
    const {component, field} = this, {curvature, group} = field, name = group.names[component];
    return {grid: curvature, value: out => out[component], scale: SCALES[dark ? "dark" : "light"],
      words: (bound, most) => most ? `F of ${name}: ±${bound.toPrecision(2)}${bound < most ? " and more" : ""}` : `F of ${name}: zero`};
  }
  paint(dark) {
    const {lower, upper} = this.field, {grid, value, scale, words} = this.painted(dark), {values, width} = grid, known = [];
    for (let n = 0; n < values.length; n += width) { const x = value(values.subarray(n, n + width)); if (isFinite(x)) known.push(Math.abs(x)); }
    known.sort((a, b) => a - b);
    const most = known[known.length - 1] || 0, bound = Math.min(most, 4 * known[known.length >> 1] || most) || 1;
    const pixels = 160, canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    canvas.width = canvas.height = pixels;
    const image = pen.createImageData(pixels, pixels), out = new Float64Array(width);
    const table = Array.from({length: 257}, (_, n) => shade(scale, n / 128 - 1));
    for (let y = 0; y < pixels; y++) {
      for (let x = 0; x < pixels; x++) {
        grid.at(lower[0] + (x + 0.5) / pixels * (upper[0] - lower[0]), upper[1] - (y + 0.5) / pixels * (upper[1] - lower[1]), out);
        const here = value(out);
        if (!isFinite(here)) continue;
        const n = 4 * (y * pixels + x), colour = table[Math.round(128 * (1 + Math.min(1, Math.max(-1, here / bound))))];
        image.data.set([...colour, 255], n);
      }
    }
    pen.putImageData(image, 0, 0);
    this.image.setAttribute("href", canvas.toDataURL());
    this.heading.textContent = words(bound, most);
  }
  // The connection: arrows −A of this component; the body moves by the part of r' along them.
  vectors(shown) {
    const {field, component, k} = {...this, k: this.field.k}, {lower, upper} = field, count = 12, form = new Float64Array(2 * k), list = [];
    for (let a = 0; shown && a < count; a++) {
      for (let b = 0; b < count; b++) {
        const centre = [a, b].map((n, c) => lower[c] + (n + 0.5) / count * (upper[c] - lower[c]));
        field.form.at(...centre, form);
        // In the picture: up is negative. Lengths are those per radian of each variable, not per pixel.
        const v = [-form[2 * component], form[2 * component + 1]];
        if (v.every(isFinite)) list.push([this.to(centre), v, Math.hypot(...v)]);
      }
    }
    const sizes = list.map(([, , n]) => n).sort((x, y) => x - y), usual = sizes[Math.floor(0.9 * sizes.length)] || 1, cell = BOX.side / count;
    this.arrowed.setAttribute("d", list.filter(([, , n]) => n > 1e-3 * usual).map(([[x, y], [u, v], n]) => {
      const long = 0.9 * cell * Math.min(1, n / usual), [c, s] = [u / n, v / n], tip = [x + long / 2 * c, y + long / 2 * s], head = Math.min(4, long / 2);
      const wing = sign => [tip[0] - head * (c - sign * 0.6 * s), tip[1] - head * (s + sign * 0.6 * c)];
      return `M${points([[x - long / 2 * c, y - long / 2 * s]])}L${points([tip])}M${points([wing(1)])}L${points([tip])}L${points([wing(-1)])}`;
    }).join(""));
  }
  draw(stroke, pair, options) {
    const at = r => this.to(pair.map(i => r[i])), m = stroke.mean.length, r = new Array(m), list = points(shapesOf(stroke, 160).map(at));
    this.line.setAttribute("points", list);
    this.halo.setAttribute("points", list);
    this.old.setAttribute("points", options.old ? points(shapesOf(options.old, 160).map(at)) : "");
    const heads = [0.0625, 0.3125, 0.5625, 0.8125].map(t => {
      const [x, y] = at(shapeAt(stroke, t, r)), [u, v] = at(shapeAt(stroke, t + 0.004, r)), n = Math.hypot(u - x, v - y) || 1;
      const [c, s] = [(u - x) / n, (v - y) / n];
      return `M${points([[x + 8 * c, y + 8 * s], [x - 4 * c - 5 * s, y - 4 * s + 5 * c], [x - 4 * c + 5 * s, y - 4 * s - 5 * c]])}Z`;
    });
    this.arrows.setAttribute("d", heads.join(""));
    const places = handlesOf(stroke, pair, options.mode);
    while (this.handles.children.length > places.length) this.handles.lastChild.remove();
    places.forEach(({place, name}, n) => {
      const circle = this.handles.children[n] ?? made("circle", {class: "handle", r: 5, fill: "var(--ground)", stroke: "var(--ink)",
        "stroke-width": 1.8, tabindex: this.component === 0 ? 0 : -1, role: "button", "data-handle": n}, this.handles);
      const [x, y] = this.to(place);
      circle.setAttribute("cx", x);
      circle.setAttribute("cy", y);
      circle.setAttribute("aria-label", `${name} at ${place.map(x => round(Math.abs(x) < 1e-9 ? 0 : x, 3)).join(", ")}; arrow keys move it`);
    });
    this.bound(options.bounds);
  }
  bound(bounds) {
    if (!bounds) { this.box.replaceChildren(); return; }
    const [x0, y1] = this.to(bounds[0]), [x1, y0] = this.to(bounds[1]);
    if (!this.box.children.length) {
      made("rect", {fill: "none", stroke: "var(--red)", "stroke-width": 1.8, "stroke-dasharray": "7 4", "pointer-events": "none"}, this.box);
      ["left", "right", "lower", "upper"].forEach((edge, n) => made("rect", {fill: "var(--red)", "data-edge": edge, tabindex: this.component === 0 ? 0 : -1,
        role: "button", "aria-label": `${edge} bound; arrow keys move it`, style: `cursor: ${n < 2 ? "ew" : "ns"}-resize`}, this.box));
    }
    const [rim, ...edges] = this.box.children, put = (e, x, y, w, h) => Object.entries({x, y, width: w, height: h}).forEach(([k, v]) => e.setAttribute(k, v));
    put(rim, x0, y0, x1 - x0, y1 - y0);
    [[x0, (y0 + y1) / 2], [x1, (y0 + y1) / 2], [(x0 + x1) / 2, y1], [(x0 + x1) / 2, y0]].forEach(([x, y], n) =>
      n < 2 ? put(edges[n], x - 4, y - 11, 8, 22) : put(edges[n], x - 11, y - 4, 22, 8));
  }
  mark(r, pair) {
    const [x, y] = this.to(pair.map(i => r[i]));
    this.point.setAttribute("cx", x);
    this.point.setAttribute("cy", y);
  }
}

// The same for the metric of shapes: grey where all rates are costly, with the rates of equal power as ellipses.
class MetricPanel extends Panel {
  constructor(...rest) {
    super(...rest);
    this.ellipse();
  }
  about() { return {label: "metric of shapes", title: "metric of shapes G: ellipses of the rates of shape that take equal power; darker where shapes cost more"}; }
  cuts() { return []; }
  painted(dark) {
    const scale = SHADES[dark ? "dark" : "light"];
    return {grid: this.field.metric, value: g => Math.sqrt(Math.max(0, g[0] * g[2] - g[1] ** 2)), scale: [...new Array(6).fill(scale[0]), ...[1, 2, 3, 4, 5].map(n => blend(...scale, n / 5))],
      words: (bound, most) => `metric of shapes: √det G to ${bound.toPrecision(2)}${bound < most ? " and more" : ""}`};
  }
  vectors() {}
  // Ellipses of the rates of equal power.
  ellipse() {
    const {field} = this, {lower, upper} = field, count = 8, g = new Float64Array(3), list = [];
    for (let a = 0; a < count; a++) {
      for (let b = 0; b < count; b++) {
        const centre = [a, b].map((n, c) => lower[c] + (n + 0.5) / count * (upper[c] - lower[c]));
        field.metric.at(...centre, g);
        const l1 = Math.sqrt(g[0]), l2 = g[1] / l1, l3 = Math.sqrt(g[2] - l2 * l2);  // G = L Lᵀ; r' = L⁻ᵀ (cos, sin)
        if (!isFinite(l1 + l2 + l3)) continue;
        list.push([centre, Array.from({length: 25}, (_, n) => {
          const y = Math.sin(n * Math.PI / 12) / l3;
          return [(Math.cos(n * Math.PI / 12) - l2 * y) / l1, y];
        })]);
      }
    }
    const reach = Math.max(...list.map(([, rates]) => Math.max(...rates.map(v => Math.max(...v.map((x, c) => Math.abs(x) / (upper[c] - lower[c])))))));
    this.ellipses.setAttribute("d", list.map(([centre, rates]) =>
      "M" + rates.map(v => points([this.to(v.map((x, c) => centre[c] + x * 0.45 / count / reach))])).join("L")).join(""));
  }
}

// What can be taken hold of: points of the stroke, or the centre and the axes of the ellipse.
function handlesOf(stroke, pair, mode) {
  const pick = r => pair.map(i => r[i]), r = new Array(stroke.mean.length);
  if (mode === "draw") return [];
  if (mode === "ellipse") {
    const axis = (rows, name) => ({place: pair.map(i => stroke.mean[i] + rows[i][0]), name});
    return [{place: pick(stroke.mean), name: "centre"}, axis(stroke.cosine, "first axis"), axis(stroke.sine, "second axis")];
  }
  return Array.from({length: HANDLES}, (_, n) => ({place: pick(shapeAt(stroke, n / HANDLES, r)), name: `point ${n + 1} of the stroke`}));
}
function dragged(stroke, pair, mode, n, from, to) {  // the stroke when the handle n goes from one place to another
  const shift = to.map((x, a) => x - from[a]);
  if (mode === "ellipse") return n === 0 ? moved(stroke, pair, shift) : ellipseWith(stroke, pair, n - 1, to);
  return pulled(stroke, n / HANDLES, pair, shift);
}
