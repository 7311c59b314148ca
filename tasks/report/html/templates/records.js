/* Each record is its own tbody, so that a row and its details stay together when sorted. */

const table = document.getElementById("records-table");
const bodies = [...table.tBodies];
const beyond = Number(table.dataset.beyond);
const elsewhere = beyond ? ` on this page; ${beyond} more are in results.parquet` : "";
const cellOf = (body, column) => body.rows[0].cells[column + 1];

function order(body, column) {
  const cell = cellOf(body, column);
  const value = cell.dataset.order ?? cell.textContent.trim();
  if (value === "" || value === "–") return null;
  return Number.isNaN(Number(value)) ? value : Number(value);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function sort(button) {
  const column = Number(button.dataset.column);
  const heading = button.closest("th");
  const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.querySelectorAll("[aria-sort]")) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
  const keyed = bodies.map((body) => [order(body, column), body]);
  keyed.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null); /* missing values stay last */
    return sign * compare(a, b);
  });
  table.append(...keyed.map(([, body]) => body));
}

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const body of bodies) {
    const row = body.rows[0].textContent.toLowerCase();
    body.hidden = !words.every((word) => row.includes(word));
    shown += body.hidden ? 0 : 1;
  }
  document.getElementById("shown").textContent = `${shown} of ${bodies.length} rows${elsewhere}`;
}

function facts(title, values) {
  const entries = Object.entries(values);
  if (!entries.length) return [];
  const list = make("dl");
  for (const [name, value] of entries) list.append(make("dt", name.replaceAll("_", " ")), make("dd", String(value)));
  return [make("div", "", [make("h3", title), list])];
}

function strip(samples, label) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 300 60");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  const [least, most] = [Math.min(...samples), Math.max(...samples)];
  svg.setAttribute("aria-label", `${label}, from ${least} below to ${most} above`);
  const line = document.createElementNS(space, "polyline");
  const at = (value, i) => `${(300 * i) / Math.max(samples.length - 1, 1)},${58 - (56 * (value - least)) / (most - least || 1)}`;
  line.setAttribute("points", samples.map(at).join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
}

function samplesOf(record) {
  if (!record.samples.length) return [];
  const shown = record.samples.length === record.total ? "" : `the first ${record.samples.length} of `;
  const title = `Samples: ${shown}${record.total}, by ${record.clock}, blocks of ${record.block}, seconds`;
  const range = make("small", `from ${Math.min(...record.samples)} s to ${Math.max(...record.samples)} s, in order of time`);
  const raw = make("pre", record.samples.join("  "));
  raw.tabIndex = 0; /* scrollable, so the keyboard must reach it */
  raw.setAttribute("role", "group");
  raw.setAttribute("aria-label", title);
  return [make("div", "", [make("h3", title), strip(record.samples, "Samples in order of time, seconds"), range, raw])];
}

function watched(record) {
  return Object.entries(record.watched).map(([quantity, values]) => {
    const range = make("small", `from ${Math.min(...values)} to ${Math.max(...values)}, over the life of the process`);
    return make("div", "", [make("h3", quantity), strip(values, `${quantity}, over time`), range]);
  });
}

function detail(record) {
  const grid = make("div", "", [
    ...facts("Reasons", Object.fromEntries(record.reasons.map((reason, i) => [`${i + 1}`, reason]))),
    ...samplesOf(record),
    ...watched(record),
    ...facts("Phases, seconds", record.phases),
    ...facts("Facts", record.facts),
    ...facts("Probes", record.probes),
    ...facts("Not available", record.missing),
    ...facts(`Environment ${record.environment}`, data.environments[record.environment] ?? {}),
  ]);
  grid.className = "grid";
  const cell = make("td", "", [grid]);
  cell.colSpan = table.tHead.rows[0].cells.length;
  const row = make("tr", "", [cell]);
  row.className = "detail";
  return row;
}

function unfold(button) {
  const body = button.closest("tbody");
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  button.textContent = open ? "−" : "+";
  if (open && body.rows.length === 1) body.append(detail(data.records[Number(body.dataset.record)]));
  if (body.rows[1]) body.rows[1].hidden = !open;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.matches(".sort")) sort(button);
  else if (button?.matches(".more")) unfold(button);
});
document.getElementById("filter").addEventListener("input", (event) => filter(event.target.value));
