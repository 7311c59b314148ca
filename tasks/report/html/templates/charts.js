const data = JSON.parse(document.getElementById("data").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function make(tag, text, children = []) {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
}

/* Charts: drawn once, drawn again when the page turns dark or light, dimmed by the legend's buttons. */

const views = new Map();
const drawnIn = new Map();
const dimmed = {};
let drawing = Promise.resolve();

/* On a phone, names leave most of the width to the marks. */
function configOf(box, theme) {
  const { axis, ...config } = data.themes[theme];
  return { ...config, axis: { ...axis, labelLimit: Math.min(axis.labelLimit, 0.4 * box.clientWidth) } };
}

async function draw(box, theme) {
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, config: configOf(box, theme), tooltip: { theme },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  views.get(box)?.finalize();
  const result = await window.vegaEmbed(box, data.charts[box.dataset.chart], options);
  views.set(box, result);
  drawnIn.set(box, theme);
  /* The menu's button is an icon; Vega's groups of marks have no names, and the caption and tables replace them. */
  const title = box.closest("figure").querySelector("h3").textContent;
  box.querySelector("summary")?.setAttribute("aria-label", `Save the chart “${title}” as a picture`);
  box.querySelector("svg.marks").setAttribute("aria-hidden", "true");
  await result.view.signal("off", dimmed[box.dataset.kind] ?? []).runAsync();
}

/* Charts near the screen come first, so that the page responds meanwhile. A folded chart is drawn when it opens. */
async function drawAll() {
  const theme = dark.matches ? "dark" : "light";
  const near = (box) => Math.abs(box.getBoundingClientRect().top) < 2 * window.innerHeight;
  const boxes = [...document.querySelectorAll("[data-chart]")].filter((box) => box.checkVisibility());
  const first = boxes.filter(near);
  delete document.documentElement.dataset.complete;
  await drawEach(first, theme);
  document.documentElement.dataset.drawn = theme;
  await drawEach(boxes.filter((box) => !first.includes(box)), theme);
  document.documentElement.dataset.complete = theme;
}

async function drawEach(boxes, theme) {
  for (const box of boxes) {
    await new Promise((resume) => setTimeout(resume));
    await drawOrExplain(box, theme);
  }
}

async function drawOrExplain(box, theme) {
  try {
    await draw(box, theme);
  } catch (error) {
    box.textContent = `This chart could not be drawn (${error.message}). The tables have its numbers.`;
  }
}

let unfolded = []; // details that are open only on paper

/* Paper is light and shows every chart and every detail at once. Vega needs no timer and no network here, so all
   charts are drawn when this event's microtasks are done, before the browser lays out the paper. */
function drawForPaper() {
  unfolded = [...document.querySelectorAll("details:not([open], .vega-embed details)")];
  for (const details of unfolded) details.open = true;
  for (const box of document.querySelectorAll("[data-chart]")) {
    if (drawnIn.get(box) !== "light") drawOrExplain(box, "light");
  }
}

/* Draw the charts of details that were just opened. */
function drawInside(details) {
  const theme = dark.matches ? "dark" : "light";
  const boxes = [...details.querySelectorAll("[data-chart]")];
  return drawEach(boxes.filter((box) => box.checkVisibility() && drawnIn.get(box) !== theme), theme);
}

/* A link to a section opens the details that are its content. */
function unfoldTarget(hash) {
  const target = document.getElementById(decodeURIComponent(hash.slice(1)));
  if (target?.matches("details")) target.open = true;
  for (const details of target?.querySelectorAll(":scope > details.fold") ?? []) details.open = true;
}

function redraw() {
  drawing = drawing.then(drawAll);
}

function dim(button) {
  const pressed = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(pressed));
  const kind = button.dataset.dims;
  dimmed[kind] = (dimmed[kind] ?? []).filter((name) => name !== button.dataset.hardware);
  if (!pressed) dimmed[kind].push(button.dataset.hardware);
  for (const [box, { view }] of views) {
    if (box.dataset.kind === kind) view.signal("off", dimmed[kind]).runAsync();
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-dims]");
  if (button) dim(button);
  const link = event.target.closest("a[href^='#']");
  if (link) unfoldTarget(link.hash);
});
document.addEventListener("toggle", (event) => {
  if (event.target.open && !unfolded.includes(event.target)) drawing = drawing.then(() => drawInside(event.target));
}, true);
window.addEventListener("hashchange", () => unfoldTarget(location.hash));
window.addEventListener("beforeprint", drawForPaper);
window.addEventListener("afterprint", () => {
  for (const details of unfolded) details.open = false;
  unfolded = [];
  if (dark.matches) redraw();
});
dark.addEventListener("change", redraw);
unfoldTarget(location.hash);
redraw();

