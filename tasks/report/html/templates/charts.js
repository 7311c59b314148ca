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

async function draw(box, theme) {
  const options = {
    mode: "vega-lite", renderer: "svg", ast: true, config: data.themes[theme], tooltip: { theme },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  views.get(box)?.finalize();
  const result = await window.vegaEmbed(box, data.charts[box.dataset.chart], options);
  views.set(box, result);
  drawnIn.set(box, theme);
  /* Vega marks up every group of marks, without names; the caption and the tables say it better. */
  box.querySelector("svg.marks").setAttribute("aria-hidden", "true");
  await result.view.signal("off", dimmed[box.dataset.kind] ?? []).runAsync();
}

/* Those near what is on the screen come first; the page stays quick to scroll and press meanwhile. */
async function drawAll() {
  const theme = dark.matches ? "dark" : "light";
  const near = (box) => Math.abs(box.getBoundingClientRect().top) < 2 * window.innerHeight;
  const boxes = [...document.querySelectorAll("[data-chart]")];
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
    await drawOrSay(box, theme);
  }
}

async function drawOrSay(box, theme) {
  try {
    await draw(box, theme);
  } catch (error) {
    box.textContent = `This chart could not be drawn (${error.message}); its numbers are in the tables.`;
  }
}

/* Paper is light and shows every chart at once. Vega needs no timer and no network here, so that all charts
   are drawn when this event's microtasks are done, which is before the browser lays out the paper. */
function drawForPaper() {
  for (const box of document.querySelectorAll("[data-chart]")) {
    if (drawnIn.get(box) !== "light") drawOrSay(box, "light");
  }
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
});
window.addEventListener("beforeprint", drawForPaper);
window.addEventListener("afterprint", () => {
  if (dark.matches) redraw();
});
dark.addEventListener("change", redraw);
redraw();

