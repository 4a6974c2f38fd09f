// The page: what is shown, what is asked of the server, what the hand does.

const data = JSON.parse(document.getElementById("data").textContent), find = id => document.getElementById(id);
const state = {
  body: null, parameters: {}, pair: [0, 1], at: [], lower: [], upper: [], frame: "body", stroke: null, old: null, mode: "pull",
  bounds: null, harmonics: 4, optimum: null, family: null, member: 0, demand: null,
};
let fields = {}, panels = [], chart = null, view = null, result = null, exact = null, past = [], future = [], moment = 0, playing = true, searching = false;

// ---------------------------------------------------------------------------------------------------- the server

class Server {
  constructor() {
    this.waiting = new Map();
    this.number = 0;
    this.open = false;
    this.pause = 1000;
    this.connect();
  }
  connect() {
    this.socket = new WebSocket(`ws://${location.host}/socket?token=${encodeURIComponent(data.token)}`);
    this.socket.onopen = () => { this.open = true; this.pause = 1000; gone(""); if (state.body) refresh({look: true}); else begin(data.first); };
    this.socket.onmessage = event => {
      const told = JSON.parse(event.data), request = this.waiting.get(told.number);
      if (!request) return;
      if (told.progress) { request.progress?.(told.progress); return; }
      this.waiting.delete(told.number);
      busy();
      if (told.error !== undefined) request.reject(new Error(told.error));
      else request.resolve(told.answer);
    };
    this.socket.onclose = () => {
      const lost = this.open;
      this.open = false;
      for (const request of this.waiting.values()) request.reject(new Error("the server has stopped"));
      this.waiting.clear();
      busy();
      gone("The server of the studio has stopped. Drawing, numbers and the animation go on, from the grids of this page; for "
        + "the rest start it again: geodyn studio" + (lost ? "." : ", and open the address that it prints."));
      this.pause = Math.min(2 * this.pause, 60000);
      setTimeout(() => this.connect(), this.pause);
    };
  }
  ask(ask, given, progress) {
    if (!this.open) return Promise.reject(new Error("this needs the server: geodyn studio"));
    const number = ++this.number;
    return new Promise((resolve, reject) => {
      this.waiting.set(number, {resolve, reject, progress, ask, since: performance.now()});
      this.socket.send(JSON.stringify({number, ask, given}));
      busy();
    });
  }
  cancel() { if (this.open) this.socket.send(JSON.stringify({number: ++this.number, ask: "cancel", given: {}})); }
}
const DOING = {body: "looking at the body", fields: "computing the curvature", exact: "", optimise: "optimising", certificate: "looking for evidence",
  family: "following the family", map: "making the map", demand: "computing the best stroke", film: "drawing the film", places: "computing where the body is", page: "writing the page", measure: "fitting the data"};
function busy() {
  const asked = server ? [...server.waiting.values()].filter(r => DOING[r.ask]) : [], first = asked[0];
  find("status").classList.toggle("busy", asked.length > 0);
  if (!first) { if (find("status").dataset.error !== "1") find("status").textContent = ""; return; }
  const seconds = (performance.now() - first.since) / 1000;
  find("status").dataset.error = "0";
  find("status").textContent = `${DOING[first.ask]} …` + (seconds > 1 ? ` ${seconds.toFixed(0)} s` + (seconds > 3 ? " (the first time it is compiled)" : "") : "");
}
function fault(error) {
  find("status").dataset.error = "1";
  find("status").textContent = error.message;
}
function gone(text) {
  find("gone").textContent = text;
  find("gone").hidden = !text;
  seen();
  document.querySelectorAll("[data-server] :is(input, select, button), button[data-server]").forEach(e => { e.disabled = !!text; });
  if (!text) find("cancel").disabled = true;
}
const request = (more = {}) => ({body: state.body.name, parameters: state.parameters, pair: state.pair, at: state.at, lower: state.lower,
  upper: state.upper, frame: state.frame, ...more});

// ---------------------------------------------------------------------------------------------------- bodies and slices

const chosen = {};  // the parameters of the bodies that were looked at before
async function begin(name) {
  const parameters = chosen[name] ?? {};
  try { arrive(await server.ask("body", {body: name, parameters}), parameters); } catch (error) {
    find("body").value = state.body?.name ?? name;
    fault(error);
  }
}
function arrive(body, parameters = {}) {
  if (state.body) chosen[state.body.name] = state.parameters;
  abandon();
  const [lower, upper] = [body.lower.slice(0, 2), body.upper.slice(0, 2)], alike = fields.body && result && comparable(state.body, body) && lies(state.stroke);
  if (!alike) state.old = null;
  else if (!state.old || !sameBody(state.old)) keep();
  Object.assign(state, {body, parameters, pair: [0, 1], at: [...body.start], lower, upper, bounds: null, optimum: null, family: null, demand: null});
  if (!alike) state.stroke = circle();
  if (body.based || body.fitted !== null) state.bounds = [[...lower], [...upper]];
  [past, future, panels, fields, view, result, exact, accepted] = [[], [], [], {}, null, null, null, parameters];
  find("panels").replaceChildren(element("p", {className: "hint", textContent: "The curvature is being computed …"}));
  find("rows").replaceChildren();
  buildBody();
  refresh({look: true});
}
// Of two bodies with the same two shape variables and the same kind of motion one can compare the strokes.
const comparable = (one, other) => [one, other].every(body => body.start.length === 2) && ["lower", "upper"].every(name => JSON.stringify(one[name]) === JSON.stringify(other[name]))
  && one.group.names.join() === other.group.names.join();
let asking = false, again = null;
async function refresh(what) {  // new grids from the server; while it computes, only the latest wish is kept
  if (data.alone) return;
  if (asking) { again = {...again, ...what}; return; }
  asking = true;
  try {
    const frames = state.frame === "body" || what.look ? ["body"] : [];
    if (state.frame !== "body") frames.push(state.frame);
    for (const frame of frames) {
      const told = await server.ask("fields", request({frame, look: frame === "body"}));
      if (frame === "body") fields = {};
      fields[frame] = new Field(told, groupOf(state.body.group));
      if (told.look) view = viewOf(find("view"), state.body, told.look);
    }
    show();
  } catch (error) {
    fault(error);
    if (state.frame !== "body" && fields.body) { state.frame = "body"; document.querySelector("[name=frame][value=body]").checked = true; show(); }
  }
  asking = false;
  if (again) { const next = again; again = null; refresh(next); }
}
const dark = () => getComputedStyle(document.documentElement).colorScheme === "dark";
const field = () => fields[state.frame] ?? fields.body;
function show() {  // new panels
  find("panels").replaceChildren();
  panels = state.body.group.names.map((_, c) => new Panel(find("panels"), c, field(), state.body.variables, dark()));
  if (state.body.metric && find("metric").checked) panels.push(new MetricPanel(find("panels"), panels.length, field(), state.body.variables, dark()));
  panels.forEach(panel => { listen(panel); panel.vectors(find("vectors").checked); });
  showMap();
  const {size, error} = field(), fine = error < 1e-4;
  find("accuracy").textContent = `Numbers while dragging come from A on a grid of ${size} × ${size} shapes, which gives A between them `
    + (error > 0 ? `to ${error.toExponential(0)} of its largest value` : "exactly")
    + (fine ? "; displacements are then right to 1e-4 of the largest. " : ": too coarse here, where the body is nearly singular. Narrow the limits of the picture"
      + (data.alone ? ". " : ", or wait for the numbers of gd.holonomy. "))
    + `${data.alone || !fine ? "" : "At rest they are checked by gd.holonomy. "}The area integral is what −∬F over the area predicts. Blue is negative, red positive.`;
  update();
}
function buildBody() {
  const {body} = state;
  find("title").textContent = body.title;
  const select = find("body");
  const bodies = data.bodies.some(b => b.name === body.name) ? data.bodies : [...data.bodies, body];
  select.replaceChildren(...bodies.map(b => new Option(b.title, b.name, false, b.name === body.name)));
  select.disabled = !!data.alone;
  showParameters();
  find("metric").disabled = !body.metric;
  document.querySelectorAll("[name=frame]").forEach(radio => {
    radio.disabled = !body.frames.includes(radio.value);
    radio.parentElement.title = radio.disabled ? "it takes minutes where the isometries are no matrices: gd.bundles.minimum_perturbation computes it" : "";
    if (radio.disabled && radio.checked) { state.frame = "body"; find("frames").querySelector("[value=body]").checked = true; }
  });
  find("goal").replaceChildren(...body.goals.map(goal => new Option({distance: "distance, without a turn", turn: "turn", whole: "net motion"}[goal], goal)));
  find("bounded").checked = !!state.bounds;
  find("certificate").replaceChildren();
  find("branch").hidden = true;
  find("progress").textContent = "";
  buildSlice();
}
const showParameters = () => find("parameters").replaceChildren(...state.body.parameters.flatMap(controlsOf));
function element(tag, properties = {}, ...children) {
  const e = Object.assign(document.createElement(tag), properties);
  e.append(...children);
  return e;
}
function typedNumber(box, before, changed) {  // an empty field is no zero
  if (box.value === "" || !isFinite(+box.value)) box.value = round(+before, 6);
  else changed(+box.value);
}
function slider(label, value, low, high, step, changed) {
  const name = element("span", {textContent: label}), range = element("input", {type: "range", min: low, max: high, step, value});
  const box = element("input", {type: "number", step: "any", value: round(value, 6)});
  range.setAttribute("aria-label", label);
  box.setAttribute("aria-label", `${label}, number`);
  range.oninput = () => { box.value = round(+range.value, 4); changed(+range.value); };
  box.onchange = () => typedNumber(box, range.value, x => { range.value = x; changed(x); });
  return element("div", {className: "parameter"}, name, range, box);
}
function changedParameter(name, value) {
  remember(`parameter ${name}`);
  if (!state.old && fields.body && result) keep();  // the numbers before stay beside those after
  state.parameters = {...state.parameters, [name]: value};
  state.optimum = state.family = state.demand = null;
  find("branch").hidden = true;
  abandon();
  changedBody();
}
let bodyAgain = false, bodyAsked = false, accepted = {};
async function changedBody() {  // what the body is now, then its grids; the limits stay
  if (bodyAsked) { bodyAgain = true; return; }
  bodyAsked = true;
  try {
    const {parameters} = state, body = await server.ask("body", {body: state.body.name, parameters});
    if (body.start.length !== state.at.length) arrive(body, parameters);
    else {
      Object.assign(state.body, body);
      accepted = parameters;
      await refresh({look: true});
    }
  } catch (error) {  // a refused value goes back to the last one that was good
    fault(error);
    if (server.open && !bodyAgain) { state.parameters = accepted; showParameters(); update(); }
  }
  bodyAsked = false;
  if (bodyAgain) { bodyAgain = false; changedBody(); }
}
function controlsOf(parameter) {
  const {name, label, kind} = parameter, given = state.parameters[name] ?? parameter.default;
  if (kind === "flag") {
    const box = element("input", {type: "checkbox", checked: given, onchange: () => changedParameter(name, box.checked)});
    return [element("label", {}, box, label)];
  }
  if (kind === "choice") {
    const select = element("select", {onchange: () => changedParameter(name, select.value)}, ...parameter.options.map(o => new Option(o, o, false, o === given)));
    return [element("label", {}, label, select)];
  }
  if (kind === "optional") {
    const box = element("input", {type: "number", step: "any", placeholder: "default", onchange: () => changedParameter(name, box.value === "" ? null : +box.value)});
    return [element("label", {}, label, box)];
  }
  const values = [given].flat(Infinity), low = [parameter.low].flat(Infinity), high = [parameter.high].flat(Infinity), scalar = !Array.isArray(parameter.default);
  return values.map((value, i) => slider(scalar ? label : `${label} ${i + 1}`, value, low[i], high[i], kind === "whole" ? 1 : "any", x => {
    values[i] = x;
    const like = d => Array.isArray(d) ? d.map(like) : queue.shift(), queue = [...values];
    changedParameter(name, scalar ? x : like(parameter.default));
  }));
}
function buildSlice() {
  const {variables, lower, upper} = state.body, m = variables.length;
  const limits = [0, 1].flatMap(a => [["lower", "from"], ["upper", "to"]].map(([end, word]) => {
    const box = element("input", {type: "number", step: "any", value: round(state[end][a], 5)});
    box.onchange = () => typedNumber(box, state[end][a], x => {
      const limits = {lower: [...state.lower], upper: [...state.upper]};
      limits[end][a] = x;
      if (limits.lower[a] < limits.upper[a]) {
        remember("limits");
        Object.assign(state, limits);
        refresh({look: true});
      } else {
        fault(new Error("the lower limit must be below the upper one"));
        box.value = round(state[end][a], 5);
      }
    });
    return element("label", {}, `${variables[state.pair[a]]} ${word}`, box);
  }));
  find("limits").replaceChildren(...limits);
  if (m === 2) { find("axes").replaceChildren(); find("others").replaceChildren(); return; }
  const selects = [0, 1].map(a => element("select", {onchange: event => {
    remember();
    const next = +event.target.value, pair = [...state.pair], drawn = lies(state.stroke) && !state.optimum;
    if (pair[1 - a] === next) pair[1 - a] = pair[a];
    pair[a] = next;
    Object.assign(state, {pair, lower: pair.map(i => lower[i]), upper: pair.map(i => upper[i]), bounds: null});
    find("bounded").checked = false;
    if (drawn) state.stroke = circle();  // what was found in more variables stays, and shows its shadow
    buildSlice();
    refresh({look: true});
  }}, ...variables.map((name, i) => new Option(name, i, false, i === state.pair[a]))));
  find("axes").replaceChildren(...selects.map((select, a) => element("label", {}, ["across", "upwards"][a], select)));
  find("others").replaceChildren(...[...variables.keys()].filter(i => !state.pair.includes(i)).map(i =>
    slider(variables[i], state.at[i], lower[i], upper[i], "any", x => held(i, x))));
}
function held(i, x) {  // another value of a variable that does not move; a stroke of this slice goes along
  remember(`held ${i}`);
  const along = lies(state.stroke);
  state.at = state.at.map((y, n) => n === i ? x : y);
  if (along) {
    state.stroke = copied(state.stroke);
    state.stroke.mean[i] = x;
    state.optimum = null;
  }
  refresh({look: true});
}
const lies = stroke => flat(stroke, state.pair) && stroke.mean.every((x, i) => state.pair.includes(i) || Math.abs(x - state.at[i]) < 1e-12);
function circle() {  // around the shape that is held, in the present slice
  const m = state.at.length, K = state.harmonics, stroke = {mean: [...state.at], cosine: zerosOf(m, K), sine: zerosOf(m, K)};
  state.pair.forEach((i, a) => {
    const half = (state.upper[a] - state.lower[a]) / 2, middle = (state.upper[a] + state.lower[a]) / 2;
    if (!(stroke.mean[i] > state.lower[a] && stroke.mean[i] < state.upper[a])) stroke.mean[i] = middle;
    (a ? stroke.sine : stroke.cosine)[i][0] = 0.4 * Math.min(half, Math.max(stroke.mean[i] - state.lower[a], 0.1 * half), Math.max(state.upper[a] - stroke.mean[i], 0.1 * half));
  });
  return stroke;
}

// ---------------------------------------------------------------------------------------------------- the stroke

// Undo brings back all that the hand changes: a snapshot is kept before each change. Movements of one slider are one.
const KEPT = ["parameters", "pair", "at", "lower", "upper", "stroke", "old", "bounds", "optimum", "demand"];
const snapshot = () => copied(Object.fromEntries(KEPT.map(name => [name, state[name]])));
let latest = {what: null, at: 0};
function remember(what = null) {
  const now = performance.now(), same = what !== null && what === latest.what && now - latest.at < 1000;
  latest = {what, at: now};
  if (same) return;
  past = [...past.slice(-199), snapshot()];
  future = [];
}
function step(list, other) {
  if (!list.length || searching) return;
  other.push(snapshot());
  const before = list.pop(), differs = names => names.some(name => JSON.stringify(before[name]) !== JSON.stringify(state[name]));
  const body = differs(["parameters"]), slice = differs(["pair", "at", "lower", "upper"]);
  latest = {what: null, at: 0};
  Object.assign(state, before);
  setHarmonics(harmonicsOf(state.stroke), false);
  find("bounded").checked = !!state.bounds;
  if (body) { showParameters(); changedBody(); }
  if (slice) { buildSlice(); refresh({look: true}); }
  if (!body && !slice) update();  // else when the new grids are there
}
function change(stroke, {keeps = true, from = "hand"} = {}) {
  if (keeps) remember();
  state.stroke = stroke;
  if (from !== "search") state.optimum = null;
  if (from !== "map") state.demand = null;
  if (!flat(stroke, state.pair) || lies(stroke)) update();
  else { state.at = stroke.mean.map((x, i) => state.pair.includes(i) ? state.at[i] : x); buildSlice(); refresh({look: true}); update(); }
}
let drawn = false;
function update() {  // once in each frame of the screen
  if (drawn) return;
  drawn = true;
  requestAnimationFrame(() => { drawn = false; if (panels.length) compute(); });
}
function compute() {
  const {stroke, pair, old} = state, sliced = lies(stroke), shown = sliced ? field() : fields.body;
  exact = null;
  if (sliced) {
    result = field().swim(stroke);
    if (!inside(field(), stroke)) Object.assign(result, {predicted: null}, data.alone ? {motion: null, cost: null} : {});  // the grid ends there
    view?.take(fields.body, stroke, field() === fields.body ? result.path : fields.body.swim(stroke).path);
  } else result = {motion: null, cost: null, predicted: null};
  // Strokes that leave the slice have their numbers from the server, in the body frame.
  result.old = !old ? null : !sameBody(old) ? (shown === fields.body ? old.told : {motion: null, cost: old.told.cost}) : lies(old) ? shown.swim(old) : shown === fields.body ? old.told : {motion: null, cost: old.told.cost};
  panels.forEach(panel => panel.draw(stroke, pair, state));
  pointed();
  boxed();
  tell();
  seen();
  later();
  frame();
  typedText();
}
let timer = null;
function later() {  // at rest, the exact numbers
  clearTimeout(timer);
  find("check").textContent = data.alone && !result.motion ? `This stroke leaves the ${lies(state.stroke) ? "picture" : "slice"}: its numbers need the server.` : "";
  if (data.alone || !server.open) return;
  timer = setTimeout(async () => {
    const stroke = state.stroke, sliced = lies(stroke), at = copied({...request()});
    try {
      const told = await server.ask("exact", {...at, stroke, poses: !sliced && view?.kind !== "places"});
      if (stroke !== state.stroke) return;
      exact = told;
      if (!sliced) {
        result = {motion: told.motion, cost: told.cost, predicted: told.predicted, old: result.old};
        if (told.poses) view?.take(fields.body, stroke, told.poses.map(g => Float64Array.from(g.flat())), told.outlines);
      }
      find("check").textContent = checked(told, stroke, sliced);
      if (sliced) Object.assign(result, {motion: told.motion, cost: told.cost});
      tell();
      frame();
      await follows(at, stroke);
    } catch (error) { if (server.open) find("check").textContent = error.message; }
  }, 150);
}
async function follows(at, stroke) {  // the places of a body that only the server knows
  if (view.kind !== "places") return;
  const told = await server.ask("places", {...at, stroke});
  if (stroke !== state.stroke) return;
  view.show(told, stroke);
  seen();
  frame();
}
function seen() {  // what the picture of such a body shows
  const {told, of} = view ?? {}, shown = told && `It is ${told.title}${told.arrows.length ? `; the thin lines along them are ${told.long} long` : ""}.${told.missing ? " What is too far in the chart is not drawn." : ""}`;
  const alone = data.alone || !server.open;
  find("seen").textContent = view?.kind !== "places" ? "" : of === state.stroke ? shown
    : alone ? "Where this stroke leads the body needs the server (geodyn studio): its isometries are no matrices, which the page could multiply. The numbers go on" + (told ? "; the body is drawn under an earlier stroke." : ".")
    : "Where this stroke leads the body is computed by the server, when you let go" + (told ? "; until then it is drawn under an earlier stroke." : ".");
}
function checked(told, stroke, sliced) {  // how the numbers of the page compare with gd.holonomy
  if (!told.motion.every(isFinite) || !isFinite(told.cost)) return "The body is singular at a shape of this stroke" + (view?.kind === "places" ? ", or what it needs is too far in the chart" : "") + ": it has no net motion.";
  const {body} = state, unmeasured = body.fitted !== null && shapesOf(stroke, 96).some(r => r.some((x, i) => x < body.lower[i] - 1e-9 || x > body.upper[i] + 1e-9));
  const warning = unmeasured ? " It goes through shapes that were not measured: numbers there are guesses." : "";
  if (!sliced) {
    const area = !told.predicted ? "." : `; the area integral is over the cone from its mean shape${state.frame === "body" ? "" : ", in the frame that the stroke disturbs least"}.`;
    return "The stroke leaves the slice: numbers by gd.holonomy, in the body frame" + area + warning;
  }
  const largest = Math.max(...told.motion.map(Math.abs), 1e-300), miss = Math.max(...told.motion.map((x, i) => Math.abs(x - result.motion[i])));
  if (!inside(field(), stroke)) return "The stroke leaves the picture, where the grid ends: the numbers are those of gd.holonomy." + warning;
  if (!(miss < 1e-3 * largest) && !(miss < 1e-6)) return "The grid is too coarse for this stroke: the numbers are those of gd.holonomy." + warning;
  return `Checked by gd.holonomy: the same to ${miss.toExponential(0)}.` + warning;
}
const efficiencyOf = (motion, cost, towing = state.body.towing) => (towing ?? 1) * distance(motion, field().group) ** 2 / cost;
function told(x) { return x === null || x === undefined || !isFinite(x) ? "–" : Math.abs(x) < 1e-9 ? "0" : Math.abs(x) < 1e-3 || Math.abs(x) >= 1e5 ? x.toExponential(3) : x.toFixed(5); }
const EXPLAINED = {
  "net motion": "exponential coordinates of the pose after one stroke", "old": "the same of the stroke that was kept",
  "area integral": "what the curvature over the enclosed area predicts: exact for small strokes only",
  "off by": "area integral minus net motion, relative to the largest component of the net motion",
  distance: "length of the translations", turn: "size of the rotation", "cost (energy)": "∫ power dt of one stroke of period 1", "cost (length²)": "∫ |r'|² dt: this body has no metric of shapes",
  "turn²/cost": "how far for the cost", efficiency: "drag of towing the straight body, times distance², over the energy (gd.efficiency)", "distance²/cost": "how far for the cost",
};
function tell() {
  const {group} = field(), {motion, predicted, cost, old} = result, known = motion?.every(isFinite);
  const heads = ["", "net motion", ...(old ? ["old"] : []), "area integral", "off by"], explained = text => EXPLAINED[text] ?? "";
  find("heads").replaceChildren(element("tr", {}, ...heads.map(h => element("th", {textContent: h, scope: "col", title: explained(h)}))));
  const largest = known ? Math.max(...motion.map(Math.abs), 1e-300) : 1, grid = 1e-6 * largest, noise = exact ? 1e-12 * largest : grid;
  const rows = group.names.map((name, c) => {
    const off = known && predicted ? Math.abs(predicted[c] - motion[c]) / largest : null, angle = c >= group.translations;
    const number = (x, least) => told(Math.abs(x) < least ? 0 : x);
    return [name + (angle ? " (rad)" : ""), number(motion?.[c], noise), ...(old ? [number(old.motion?.[c], grid)] : []), number(predicted?.[c], grid),
      off === null || !isFinite(off) ? "–" : off < 5e-6 ? "0 %" : off > 10 ? "> 1000 %" : `${+(100 * off).toPrecision(2)} %`];
  });
  const row = (name, of) => rows.push([name, told(known ? of(motion, cost) : null),
    ...(old ? [told(old.motion ? of(old.motion, old.cost, state.old?.told.towing) : null)] : []), "", ""]);
  row(group.translations ? "distance" : "turn", motion => distance(motion, group));
  rows.push([state.body.metric ? "cost (energy)" : "cost (length²)", told(cost), ...(old ? [told(old.cost)] : []), "", ""]);
  row(state.body.towing ? "efficiency" : `${group.translations ? "distance" : "turn"}²/cost`, efficiencyOf);
  find("kept").textContent = sameBody(state.old) ? "" : `The old numbers are those ${origin(state.old.of)}.`;
  find("rows").replaceChildren(...rows.map(row => element("tr", {}, ...row.map((text, i) =>
    element(i ? "td" : "th", {textContent: text, className: i === 1 ? "big" : "", scope: i ? "" : "row", title: i ? "" : explained(text)})))));
  if (document.activeElement?.closest("#amounts") === null) amounts();
  find("undo").disabled = !past.length;
  find("redo").disabled = !future.length;
  find("forget").disabled = !state.old;
  find("swap").disabled = !state.old || state.old.of.name !== state.body.name;
  find("certificate").replaceChildren(...(state.optimum?.said ?? []).map(({good, text}) => element("li", {textContent: text, className: good ? "" : "bad"})));
}
function amounts() {  // what the optimal stroke is to reach: what this one does
  const {motion} = result, group = field().group, goal = find("goal").value;
  if (!motion || searching) return;
  const values = goal === "whole" ? motion : goal === "turn" ? [motion[group.dim - 1]] : [group.translations === 1 ? motion[0] : distance(motion, group)];
  const names = goal === "whole" ? group.names : [goal];
  find("amounts").replaceChildren(...values.map((x, i) => element("label", {}, goal === "whole" ? names[i] : "", element("input", {type: "number", step: "any", value: Math.abs(x) < 1e-9 ? 0 : round(x, 6), ariaLabel: names[i]}))));
}
function typedText() {
  if (document.activeElement === find("typed")) return;
  const rows = state.stroke, rounded = JSON.stringify(rows, (_, x) => typeof x === "number" ? round(x, 8) : x);
  find("typed").value = rounded.replace(/,"/g, ',\n"');
}
function readStroke(text) {  // points of shape in lines, or {mean, cosine, sine}
  const m = state.at.length;
  if (text.trim().startsWith("{")) {
    let told;
    try { told = JSON.parse(text); } catch (error) { throw new Error(`the coefficients cannot be read: ${error.message}`); }
    const {mean, cosine, sine} = told, K = cosine?.[0]?.length;
    const good = [mean, cosine, sine].every(rows => Array.isArray(rows) && rows.length === m)
      && [...cosine, ...sine].every(row => Array.isArray(row) && row.length === K) && K >= 1 && K <= 32
      && [mean, cosine, sine].flat(2).every(x => typeof x === "number" && isFinite(x));
    if (!good) throw new Error(`wanted {"mean": [${m}], "cosine": [${m}][K], "sine": [${m}][K]}, numbers, K from 1 to 32`);
    return {mean, cosine, sine};
  }
  const lines = text.split("\n").map(line => line.trim().split(/[\s,;]+/)).filter(line => line[0]);
  const named = lines.length && !lines[0].every(x => isFinite(x)) ? lines.shift().map(x => x.toLowerCase()) : null;
  const table = lines.map(line => line.map(Number)), width = table[0]?.length ?? 0, wanted = [...Array(m).keys()].map(i => `r${i + 1}`);
  // Without names: the shapes alone, or a column of times before them.
  const columns = named ? wanted.map(name => named.indexOf(name)) : [...Array(width).keys()].slice(-m), fits = named ? !columns.includes(-1) : width === m || width === m + 1;
  if (table.length < 3 || !fits || table.some(row => row.length !== width || columns.some(i => !isFinite(row[i])))) {
    throw new Error(`wanted at least 3 lines of ${m} numbers, a shape in each, or a CSV with columns ${wanted.join(", ")}; got ${table.length} lines${named ? ` and the columns ${named.join(", ")}` : ` of ${width}`}`);
  }
  const list = table.map(row => columns.map(i => row[i]));
  if (Math.hypot(...list[0].map((x, i) => x - list[list.length - 1][i])) < 1e-9) list.pop();
  const timed = (named ? named.includes("t") : width === m + 1) && list.length > 8;
  return timed ? fitted(list, Math.min(32, Math.max(state.harmonics, (list.length - 1) >> 1))) : alongPoints(list, state.harmonics);
}
function take(text) {
  try {
    const stroke = readStroke(text);
    find("typing").textContent = "";
    setHarmonics(harmonicsOf(stroke), false);
    change(stroke);
  } catch (error) { find("typing").textContent = error.message; }
}
function keep() {  // the stroke as the old one, with its numbers: those of strokes that leave the slice are the server's
  const {motion, cost} = lies(state.stroke) ? fields.body.swim(state.stroke) : result;
  const {name, title, towing} = state.body;
  state.old = {...copied(state.stroke), told: {motion, cost, towing}, of: {name, title, parameters: state.parameters}};  // in the body frame
}
const valueOf = ({name, default: usual}, parameters) => JSON.stringify(parameters[name] ?? usual);
const changesSince = of => state.body.parameters.filter(about => valueOf(about, of.parameters) !== valueOf(about, state.parameters));
const sameBody = old => !old || (old.of.name === state.body.name && !changesSince(old.of).length);
function origin(of) {  // of the old numbers, when the body has changed since
  const rounded = about => JSON.stringify(of.parameters[about.name] ?? about.default, (_, x) => typeof x === "number" ? round(x, 4) : x);
  return of.name !== state.body.name ? `of ${of.title}`
    : `with ${changesSince(of).map(about => `${about.label} ${rounded(about).replace(/["[\]]/g, "").replace(/,/g, ", ")}`).join("; ")}`;
}
function setHarmonics(K, apply = true) {
  state.harmonics = Math.min(32, Math.max(1, Math.round(K) || 1));
  find("harmonics").value = state.harmonics;
  if (apply) change(withHarmonics(state.stroke, state.harmonics));
}
// ---------------------------------------------------------------------------------------------------- the hand

function listen(panel) {
  let grip = null;
  const {svg} = panel, {pair} = panel.field;
  svg.onpointerdown = event => {
    if (event.button) return;
    const at = placeIn(svg, event), r = panel.from(at), {handle, edge} = event.target.dataset;
    if (!lies(state.stroke) && state.mode !== "draw" && !event.target.dataset.edge) { find("check").textContent = "This stroke leaves the slice: draw or choose another to change it here."; return; }
    if (edge) grip = {edge};
    else if (state.mode === "draw") { if (event.target !== panel.image) return; grip = {points: [r]}; }
    else if (handle !== undefined) grip = {n: +handle, from: r, first: state.stroke, start: r};
    else grip = nearest(panel, at, r);
    if (!grip) return;
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    if (!grip.points) remember();
  };
  svg.onpointermove = event => {
    if (!grip) return;
    const r = panel.from(placeIn(svg, event)).map((x, a) => Math.min(state.upper[a], Math.max(state.lower[a], x)));
    if (grip.points) { grip.points.push(r); panel.drawn.setAttribute("points", points(grip.points.map(panel.to))); }
    else if (grip.edge) boundAt(grip.edge, r);
    else if (grip.n !== undefined) change(dragged(grip.first, pair, state.mode, grip.n, grip.start, r), {keeps: false});
    else change(grip.move(r), {keeps: false});
  };
  svg.onpointerup = svg.onpointercancel = () => {
    if (grip?.points) {
      panel.drawn.setAttribute("points", "");
      if (grip.points.length > 4) {
        const part = alongPoints(grip.points, state.harmonics), m = state.at.length, K = state.harmonics;
        const stroke = {mean: [...state.at], cosine: zerosOf(m, K), sine: zerosOf(m, K)};
        pair.forEach((i, a) => { stroke.mean[i] = part.mean[a]; stroke.cosine[i] = part.cosine[a]; stroke.sine[i] = part.sine[a]; });
        change(stroke);
      }
    }
    grip = null;
  };
  svg.onkeydown = event => {
    const shift = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key], {handle, edge} = event.target.dataset;
    if (!shift || (handle === undefined && !edge)) return;
    event.preventDefault();
    const by = shift.map((s, a) => s * (event.shiftKey ? 0.002 : 0.02) * (state.upper[a] - state.lower[a]));
    if (edge) { const k = edge === "left" || edge === "lower" ? 0 : 1; remember(edge); boundAt(edge, pair.map((i, a) => state.bounds[k][a] + by[a])); return; }
    const from = handlesOf(state.stroke, pair, state.mode)[+handle].place;
    change(dragged(state.stroke, pair, state.mode, +handle, from, from.map((x, a) => x + by[a])));
  };
}
function nearest(panel, at, r) {  // the stroke under the pointer, or the whole if it is inside
  const {pair} = panel.field, first = state.stroke, list = shapesOf(first, 240).map(q => panel.to(pair.map(i => q[i])));
  let best = Infinity, when = 0, winding = 0;
  list.forEach((p, n) => {
    const far = Math.hypot(p[0] - at[0], p[1] - at[1]), q = list[(n + 1) % list.length];
    if (far < best) { best = far; when = n / list.length; }
    if ((p[1] > at[1]) !== (q[1] > at[1]) && at[0] < p[0] + (at[1] - p[1]) / (q[1] - p[1]) * (q[0] - p[0])) winding += q[1] > p[1] ? 1 : -1;
  });
  const shift = to => to.map((x, a) => x - r[a]);
  if (best < GRIP) return {move: to => state.mode === "ellipse" ? moved(first, pair, shift(to)) : pulled(first, when, pair, shift(to))};
  return winding ? {move: to => moved(first, pair, shift(to))} : null;
}
function boundAt(edge, r) {
  const a = edge === "left" || edge === "right" ? 0 : 1, k = edge === "left" || edge === "lower" ? 0 : 1, [lower, upper] = state.bounds;
  const gap = 0.02 * (state.upper[a] - state.lower[a]);
  state.bounds[k][a] = k ? Math.min(state.upper[a], Math.max(lower[a] + gap, r[a])) : Math.max(state.lower[a], Math.min(upper[a] - gap, r[a]));
  panels.forEach(panel => panel.bound(state.bounds));
  boxed();
}
function boxed() {  // the edges of the box as numbers
  if (find("box").contains(document.activeElement)) return;
  const edges = [["left", "right"], ["lower", "upper"]], input = (a, k) => {
    const name = `${state.body.variables[state.pair[a]]} ${k ? "to" : "from"}`;
    const box = element("input", {type: "number", step: "any", value: round(state.bounds[k][a], 4), ariaLabel: name});
    box.onchange = () => typedNumber(box, state.bounds[k][a], x => {
      remember();
      boundAt(edges[a][k], state.bounds[k].map((y, c) => c === a ? x : y));
      box.value = round(state.bounds[k][a], 4);
    });
    return box;
  };
  find("box").replaceChildren(...(state.bounds ? [0, 1] : []).map(a =>
    element("div", {className: "edges"}, element("span", {textContent: state.body.variables[state.pair[a]]}), input(a, 0), "to", input(a, 1))));
}

// ---------------------------------------------------------------------------------------------------- searches

function problem() {
  const boxes = [...find("amounts").querySelectorAll("input")], values = boxes.map(e => +e.value);
  const blank = boxes.find(e => e.value === "");
  if (blank) { blank.focus(); throw new Error(`type a number for ${blank.ariaLabel}`); }
  return request({goal: find("goal").value, displacement: values, harmonics: Math.max(state.harmonics, 12), stroke: state.stroke, bounds: wideBounds()});
}
const wideBounds = () => {
  const m = state.at.length, wide = [new Array(m).fill(-1e9), new Array(m).fill(1e9)];
  if (state.bounds) state.pair.forEach((i, a) => { wide[0][i] = state.bounds[0][a]; wide[1][i] = state.bounds[1][a]; });
  return state.bounds ? wide : null;
};
function abandon() {  // a search for a body that is no longer shown
  if (searching) { ended = count; server.cancel(); }
}
let count = 0, ended = null;  // of the search that runs: its last word, and the count at which it was cancelled
const SEARCHES = ["optimise", "family", "chart"];
async function search(what, problem, done) {
  [searching, count, ended] = [true, 0, null];
  find("cancel").disabled = false;
  SEARCHES.forEach(id => { find(id).disabled = true; });
  find("progress").textContent = "compiling, or looking for a beginning …";
  const body = () => JSON.stringify([state.body.name, state.parameters]), before = body();
  try {
    const found = await server.ask(what, problem(), told => {
      count = told.count;
      if (ended !== null) return;
      find("progress").textContent = told.what === "iteration" ? `iteration ${count}: off an optimum by ${told.value.toExponential(1)}`
        : told.what === "points" ? `${count} points of the map have a stroke; ${told.value} strokes were tried` : `${count} strokes, now at ${told.value.toPrecision(3)}`;
    });
    if (body() !== before) throw new Error("the body was changed meanwhile: the search for the one before was ended");
    await done(found);
  } catch (error) { find("progress").textContent = error.message; }
  searching = false;
  find("cancel").disabled = true;
  SEARCHES.forEach(id => { find(id).disabled = !server.open; });
}
function optimise() {
  return search("optimise", problem, async found => {
    if (ended === 0) { find("progress").textContent = "cancelled before it began: the stroke is as it was"; return; }
    const started = result.cost, turn = find("goal").value === "distance" && result.motion ? Math.max(0, ...result.motion.slice(field().group.translations).map(Math.abs)) : 0;
    remember();
    if (!state.old || !sameBody(state.old)) keep();
    setHarmonics(harmonicsOf(found.stroke), false);
    change(found.stroke, {keeps: false, from: "search"});
    state.optimum = found;
    const turned = turn > 1e-3 ? `; the stroke before also turned by ${turn.toPrecision(3)}, which may be why it cost less` : "";
    find("progress").textContent = (found.converged ? `found in ${found.iterations} iterations: cost ${found.cost.toPrecision(6)}`
      : ended !== null ? `cancelled after ${found.iterations} iterations: the stroke so far, which is no optimum` : found.result) + cornered(found) + (found.converged && found.cost > started ? turned : "");
    await evidence(found);
  });
}
const cornered = found => found.drawn > 1e-5 ? `; it has a corner where it begins, which ${harmonicsOf(found.stroke)} harmonics draw: what is shown moves ${(100 * found.drawn).toPrecision(1)} % otherwise` : "";
async function evidence(found) {
  found.said = [{good: false, text: "looking for evidence …"}];
  try {
    found.said = (await server.ask("certificate", {})).sentences;
  } catch (error) { found.said = []; fault(error); }
  tell();
}
function follow() {
  return search("family", problem, async family => {
    state.family = family;
    find("progress").textContent = ended !== null ? `cancelled: the ${family.strokes.length} strokes so far` : `${family.strokes.length} strokes; beyond: ${family.end}`;
    remember();
    if (!state.old || !sameBody(state.old)) keep();
    charts();
    member(family.here);
  });
}
function charts() {
  const {strokes} = state.family, x = strokes.map(s => Math.abs(s.displacement));
  find("branch").hidden = false;
  const wanted = [["cost", "cost over net motion"], ["efficiency", state.body.towing ? "efficiency" : "net motion² / cost"]];
  find("charts").replaceChildren(...wanted.map(([key, title]) => {
    const y = strokes.map(s => s[key]), [w, h, left, low] = [210, 130, 8, 18], most = Math.max(...y), [a, b] = [Math.min(...x), Math.max(...x)];
    const at = (u, v) => [left + (w - 2 * left) * (u - a) / (b - a || 1), h - low - (h - 2 * low - 6) * v / most];
    const svg = made("svg", {viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": title});
    made("text", {x: left, y: 12}, svg, `${title}, to ${most.toPrecision(3)}`);
    made("path", {d: `M${left} ${h - low}H${w - left}`, stroke: "var(--line)"}, svg);
    [[a, "start", left], [b, "end", w - left]].forEach(([value, anchor, place]) => made("text", {x: place, y: h - 4, "text-anchor": anchor}, svg, value.toPrecision(3)));
    made("polyline", {points: points(x.map((u, i) => at(u, y[i]))), fill: "none", stroke: "var(--blue)", "stroke-width": 2}, svg);
    if (key === "efficiency") {
      const best = y.indexOf(most), [u, v] = at(x[best], most);
      made("circle", {cx: u, cy: v, r: 7, fill: "none", stroke: "var(--good)", "stroke-width": 2}, svg);
      made("text", {x: Math.min(w - 40, Math.max(40, u)), y: v + 20, "text-anchor": "middle"}, svg, `best at ${x[best].toPrecision(3)}`);
    }
    const dot = made("circle", {r: 5, fill: "var(--gold)", stroke: "var(--ink)"}, svg);
    svg.place = i => { const [u, v] = at(x[i], y[i]); dot.setAttribute("cx", u); dot.setAttribute("cy", v); };
    svg.onclick = event => {
      const u = a + (event.offsetX * w / svg.clientWidth - left) / (w - 2 * left) * (b - a);
      member(x.reduce((best, v, i) => Math.abs(v - u) < Math.abs(x[best] - u) ? i : best, 0));
    };
    return svg;
  }));
  Object.assign(find("along"), {min: 0, max: strokes.length - 1, step: 1});
}
function member(i) {
  const {stroke} = state.family.strokes[i];
  marked(i);
  setHarmonics(harmonicsOf(stroke), false);
  change(copied(stroke), {keeps: false});
}
function marked(i) {  // where a stroke of the family is on its curves
  const chosen = state.family.strokes[i];
  state.member = i;
  find("along").value = i;
  [...find("charts").children].forEach(svg => svg.place(i));
  find("member").textContent = `net motion ${round(chosen.displacement, 5)}, cost ${chosen.cost.toPrecision(5)}, ${state.body.towing ? "efficiency" : "distance²/cost"} ${chosen.efficiency.toPrecision(4)}` + (chosen.minimum ? "" : " (no minimum)");
}

// ---------------------------------------------------------------------------------------------------- the map

find("measure").replaceChildren(...MEASURES.map((name, k) => new Option(name, k)));
function makeMap() {
  return search("map", () => request({stroke: state.stroke, bounds: wideBounds()}), async found => {
    state.body.map = found.map;
    const {displacement, turn} = found.map;
    find("progress").textContent = ended !== null ? "cancelled: the map so far" : `a map of ${displacement.length} × ${turn.length} strokes: drag its point`;
    show();
  });
}
function showMap() {
  const {map} = state.body;
  find("coloured").hidden = !map;
  chart = map ? new MapPanel(find("panels"), new StrokeMap(map), dark(), +find("measure").value) : null;
  if (chart) listenMap(chart);
}
function pointed(problem = "") {  // where the point is, and what its stroke is
  const {demand, optimum} = state;
  chart?.draw(demand);
  if (!chart) { find("demand").textContent = ""; return; }
  const places = chart.map.told(demand ?? chart.at);
  const told = !demand ? "Drag the point of the map: the stroke is then the best one there, in the body frame." : optimum ? `${places}: cost ${optimum.cost.toPrecision(6)}${cornered(optimum)}`
    : `${places}: cost ${chart.map.predict(demand).cost.toPrecision(4)}, predicted from the nearest point of the map` + (data.alone || !server.open ? ": the exact one needs the server" : "");
  find("demand").textContent = problem || told;
}
function aim(demand) {  // the point is there now: its stroke, as the map predicts it
  const there = chart.map.within(demand), predicted = chart.map.predict(there);
  if (!predicted) { pointed("No stroke is known around there."); return; }
  state.demand = there;
  setHarmonics(chart.map.harmonics, false);
  change(predicted.stroke, {keeps: false, from: "map"});
}
let settling = false;
async function settle() {  // at rest: the optimum itself, by the server
  if (settling || data.alone || !server.open || !state.demand) return;
  settling = true;
  const {stroke, demand} = state;
  try {
    const found = await server.ask("demand", request({demand}));
    if (stroke === state.stroke) {
      change(found.stroke, {keeps: false, from: "map"});
      state.optimum = found;
      await evidence(found);
    }
  } catch (error) { if (stroke === state.stroke) pointed(error.message); }
  settling = false;
  if (state.demand && !state.optimum && stroke !== state.stroke) settle();
}
function listenMap({svg, image, handle, map, from, reach}) {
  let held = false, rest = null;
  svg.onpointerdown = event => {
    if (event.button || searching || (event.target !== image && event.target !== handle)) return;
    held = true;
    svg.setPointerCapture(event.pointerId);
    event.preventDefault();
    handle.focus();
    remember();
    if (event.target === image || !state.demand) aim(from(placeIn(svg, event)));
  };
  svg.onpointermove = event => { if (held) aim(from(placeIn(svg, event))); };
  svg.onpointerup = svg.onpointercancel = () => { if (held) settle(); held = false; };
  svg.onkeydown = event => {
    const shift = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[event.key];
    if (!shift || searching) return;
    event.preventDefault();
    remember("map");
    aim(chart.at.map((x, a) => x + shift[a] * (event.shiftKey ? 0.002 : 0.02) * reach[a]));
    clearTimeout(rest);
    rest = setTimeout(settle, 300);
  };
}

// ---------------------------------------------------------------------------------------------------- export

const list = rows => JSON.stringify(rows, (_, x) => typeof x === "number" && Math.abs(x) < 1e-14 ? 0 : x).replace(/,/g, ", ");
function python() {
  const {body, stroke, pair, at, lower, upper} = state, m = at.length, options = m > 2 ? `, variables=(${pair.join(", ")}), at=${list(at)}` : "";
  const names = body.group.names.join(", ");
  return ["import jax", "", 'jax.config.update("jax_enable_x64", True)', "import geodyn as gd", ...(body.imports ? ["", `# ${body.imports.split(" ")[1].split(".")[0]} is to be found from where this runs.`, body.imports] : []), "",
    `body = ${body.python}`, ...(body.metric ? [] : ["body = gd.bundles.KaluzaKlein(body)  # cost: the squared length of the stroke"]),
    "stroke = gd.FourierStroke(", `    mean=${list(stroke.mean)},`, `    cosine=${list(stroke.cosine)},`, `    sine=${list(stroke.sine)},`, ")",
    `print("net motion (${names}):", body.group.log(gd.holonomy(body, stroke)))`, 'print("cost:", gd.cost(body, stroke))',
    ...(state.optimum ? [`best = ${state.optimum.python}`, 'print("optimal:", best.cost, best.kkt_residual)'] : []),
    `gd.plot.height_functions(body, ${list(lower)}, ${list(upper)}, stroke=stroke, frame=${JSON.stringify(state.frame)}${options}).savefig("stroke.png")`,
    ...(body.drawing === "axes" ? [] : body.drawing === "places" ? ['gd.plot.displacement(body, stroke, strokes=3).figure.savefig("displacement.png")'] : [`gd.plot.player(${body.metric ? "body" : "body.connection"}, stroke, "stroke.html", component=None)`]), ""].join("\n");
}
function save(name, content, type) {
  const link = element("a", {download: name, href: content instanceof Blob || typeof content !== "string" || !content.startsWith("data:")
    ? URL.createObjectURL(new Blob([content], {type})) : content});
  link.click();
}
function picture() {  // all panels side by side in one SVG, with the colours as they are
  const width = BOX.left + BOX.side + BOX.right, height = BOX.top + BOX.side + BOX.bottom, style = getComputedStyle(document.documentElement);
  const sheet = made("svg", {xmlns: SVG, width: width * panels.length, height, viewBox: `0 0 ${width * panels.length} ${height}`});
  made("rect", {width: "100%", height: "100%", fill: "var(--ground)"}, sheet);
  panels.forEach((panel, n) => {
    const copy = made("g", {transform: `translate(${n * width} 0)`, "font-family": "sans-serif", "font-size": 15}, sheet);
    copy.append(...[...panel.svg.cloneNode(true).children].filter(e => !e.querySelector(".handle, [data-edge]") && !e.matches(".point")));
    copy.querySelectorAll("text").forEach(text => text.setAttribute("fill", "var(--ink)"));
  });
  return new XMLSerializer().serializeToString(sheet).replace(/var\((--\w+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}
const exports = {
  python: () => save("stroke.py", python(), "text/x-python"),
  csv: () => {
    const names = state.at.map((_, i) => `r${i + 1}`), rows = shapesOf(state.stroke, 128).map((r, n) => [n / 128, ...r].map(x => round(x, 15)).join(","));
    save("stroke.csv", [["t", ...names].join(","), ...rows, ""].join("\n"), "text/csv");
  },
  svg: () => save("curvature.svg", picture(), "image/svg+xml"),
  png: () => {
    const image = new Image();
    image.onload = () => {
      const canvas = element("canvas", {width: 2 * image.width, height: 2 * image.height}), pen = canvas.getContext("2d");
      pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      save("curvature.png", canvas.toDataURL("image/png"));
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(picture());
  },
  gif: async () => save("stroke.gif", "data:image/gif;base64," + (await server.ask("film", request({stroke: state.stroke}))).gif),
  page: async () => {
    const {stroke, old, frame, mode, bounds, harmonics, family, member, optimum, demand} = state;
    const {html} = await server.ask("page", request({state: {parameters: state.parameters, pair: state.pair, at: state.at, stroke, old, frame, mode, bounds, harmonics, family, member, optimum, demand}}));
    save("studio.html", html, "text/html");
  },
};

// ---------------------------------------------------------------------------------------------------- the animation

let latestStamp = 0;
function frame(stamp) {
  if (!panels.length || !view?.path) return;
  const r = shapeAt(state.stroke, moment % 1, new Array(state.at.length));
  panels.forEach(panel => panel.mark(r, state.pair));
  view.draw(Math.min(moment, 2.999999), +find("trail").value);
  find("time").value = moment;
  find("clock").textContent = `${moment.toFixed(2)} strokes`;
}
function tick(stamp) {
  if (playing) { moment = (moment + Math.min(stamp - latestStamp, 100) / 2500) % 3; frame(); }
  latestStamp = stamp;
  requestAnimationFrame(tick);
}
function play(on) { playing = on; find("play").textContent = on ? "Pause" : "Play"; }

// ---------------------------------------------------------------------------------------------------- everything listens

const HINTS = {
  pull: "Drag the stroke where it is to change, or from inside to move it. Arrow keys move its points.",
  ellipse: "Drag the centre and the ends of the two axes.",
  draw: "Draw a closed curve in any of the pictures.",
};
function setMode(mode) {
  state.mode = mode;
  find("hint").textContent = HINTS[mode];
  if (mode === "ellipse" && harmonicsOf(state.stroke) > 1) {
    const rows = rows => rows.map(row => row.map((x, k) => k ? 0 : x));
    change({mean: [...state.stroke.mean], cosine: rows(state.stroke.cosine), sine: rows(state.stroke.sine)});
  }
  panels.forEach(panel => panel.handles.replaceChildren());
  update();
}
document.querySelectorAll("[name=mode]").forEach(radio => { radio.onchange = () => setMode(radio.value); });
document.querySelectorAll("[name=frame]").forEach(radio => { radio.onchange = () => {
  state.frame = radio.value;
  if (fields[state.frame]) show(); else refresh({});
}; });
const presets = {
  circle: () => change(circle()),
  eight: () => {
    const next = withHarmonics(state.stroke, Math.max(2, state.harmonics)), [i, j] = state.pair;
    setHarmonics(harmonicsOf(next), false);
    const reach = [i, j].map((v, a) => 0.5 * Math.min(next.mean[v] - state.lower[a], state.upper[a] - next.mean[v]));
    [next.cosine, next.sine].forEach(rows => [i, j].forEach(v => rows[v].fill(0)));
    next.cosine[i][0] = reach[0];
    next.sine[j][1] = reach[1];
    change(next);
  },
  square: () => {
    const [i, j] = state.pair, reach = [i, j].map((v, a) => 0.5 * Math.min(state.stroke.mean[v] - state.lower[a], state.upper[a] - state.stroke.mean[v]));
    if (state.harmonics < 7) setHarmonics(7, false);
    const part = alongPoints([[1, 1], [-1, 1], [-1, -1], [1, -1]].map(s => [i, j].map((v, a) => state.stroke.mean[v] + s[a] * reach[a])), state.harmonics);
    const next = withHarmonics(state.stroke, state.harmonics);
    [i, j].forEach((v, a) => { next.mean[v] = part.mean[a]; next.cosine[v] = part.cosine[a]; next.sine[v] = part.sine[a]; });
    change(next);
  },
  reverse: () => change(reversed(state.stroke)),
};
document.querySelectorAll("[data-preset]").forEach(button => { button.onclick = () => presets[button.dataset.preset](); });
document.querySelectorAll("[data-export]").forEach(button => { button.onclick = async () => {
  find("export").open = false;
  try { await exports[button.dataset.export](); } catch (error) { fault(error); }
}; });
find("body").onchange = event => begin(event.target.value);
find("harmonics").onchange = event => setHarmonics(+event.target.value);
find("take").onclick = () => take(find("typed").value);
find("load").onchange = async event => { const [file] = event.target.files; if (file) take(await file.text()); event.target.value = ""; };
find("measured").onchange = async event => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  try {
    const body = await server.ask("measure", {name: file.name, text: await file.text()});
    find("fitted").textContent = `fitted; on rows that were held back it is off by ${(100 * body.fitted).toPrecision(2)} %`;
    if (!data.bodies.some(b => b.name === body.name)) data.bodies.push({name: body.name, title: body.title});
    arrive(body);
  } catch (error) { find("fitted").textContent = error.message; }
};
find("goal").onchange = () => amounts();
find("bounded").onchange = event => {
  remember();
  state.bounds = event.target.checked ? [0, 1].map(k => state.pair.map((_, a) => {
    const reach = shapesOf(state.stroke, 96).map(r => r[state.pair[a]]), edge = k ? Math.max(...reach) : Math.min(...reach);
    return k ? Math.min(state.upper[a], edge + 0.1 * (state.upper[a] - state.lower[a])) : Math.max(state.lower[a], edge - 0.1 * (state.upper[a] - state.lower[a]));
  })) : null;
  update();
};
find("vectors").onchange = event => panels.forEach(panel => panel.vectors(event.target.checked));
find("metric").onchange = () => { if (panels.length) show(); };
find("optimise").onclick = () => optimise();
find("family").onclick = () => follow();
find("chart").onclick = () => makeMap();
find("measure").onchange = event => { chart.measure = +event.target.value; chart.paint(dark()); };
find("cancel").onclick = () => { ended = count; server.cancel(); find("cancel").disabled = true; find("progress").textContent = "cancelling …"; };
find("along").oninput = event => member(+event.target.value);
find("keep").onclick = () => { remember(); keep(); update(); };
find("swap").onclick = () => {
  const {old} = state, also = !sameBody(old);
  remember();
  keep();
  setHarmonics(harmonicsOf(old), false);
  change({mean: old.mean, cosine: old.cosine, sine: old.sine}, {keeps: false});
  if (also) { state.parameters = old.of.parameters; showParameters(); abandon(); changedBody(); }
};
find("forget").onclick = () => { remember(); state.old = null; update(); };
find("undo").onclick = () => step(past, future);
find("redo").onclick = () => step(future, past);
find("play").onclick = () => play(!playing);
find("time").oninput = event => { play(false); moment = +event.target.value; frame(); };
find("trail").onchange = () => frame();
const repaint = () => [...panels, ...(chart ? [chart] : [])].forEach(panel => panel.paint(dark()));
find("theme").onclick = () => {
  document.documentElement.dataset.theme = dark() ? "light" : "dark";
  repaint();
  frame();
};
matchMedia("(prefers-color-scheme: dark)").onchange = () => { repaint(); frame(); };
document.onkeydown = event => {
  const writing = event.target.matches("textarea, select, input:not([type=radio], [type=checkbox], [type=range])");
  if ((event.ctrlKey || event.metaKey) && !writing && event.key === "z") { event.preventDefault(); step(past, future); }
  if ((event.ctrlKey || event.metaKey) && !writing && event.key === "y") { event.preventDefault(); step(future, past); }
  if (event.key === " " && !writing && !event.target.matches("button, summary")) { event.preventDefault(); play(!playing); }
};
new ResizeObserver(() => frame()).observe(find("view"));
if (matchMedia("(prefers-reduced-motion: reduce)").matches) play(false);
find("hint").textContent = HINTS.pull;
requestAnimationFrame(tick);

let server = null;
if (data.alone) {
  document.querySelectorAll("[data-server]").forEach(e => { e.hidden = true; });
  find("parameters").hidden = false;
  const {parameters, pair, at, lower, upper} = {...data.fields.body, ...data.state};
  arrive(data.body, parameters ?? {});
  find("parameters").querySelectorAll("input, select").forEach(e => { e.disabled = true; });
  Object.assign(state, {pair, at, lower: data.fields.body.lower, upper: data.fields.body.upper});
  const {stroke, old, frame: shown, mode, bounds, harmonics, family, member: along, optimum, demand} = data.state;
  Object.assign(state, {stroke: stroke ?? state.stroke, old: old ?? null, bounds: bounds ?? state.bounds, harmonics: harmonics ?? state.harmonics, optimum: optimum ?? null, demand: demand ?? null});
  for (const [name, told] of Object.entries(data.fields)) fields[name] = new Field(told, groupOf(data.body.group));
  view = viewOf(find("view"), data.body, data.fields.body.look);
  if (data.places) view.show(data.places, state.stroke);
  state.frame = shown ?? "body";
  document.querySelector(`[name=frame][value="${state.frame}"]`).checked = true;
  find("harmonics").value = state.harmonics;
  if (mode) { state.mode = mode; document.querySelector(`[name=mode][value=${mode}]`).checked = true; find("hint").textContent = HINTS[mode]; }
  show();
  if (family) { state.family = family; charts(); marked(along ?? family.here); }
} else {
  server = new Server();
  setInterval(busy, 500);
}
