/* The map of cells: one Tab stop, arrow keys inside, and a description of the field in focus. */

const map = document.querySelector(".map");
const fieldText = document.getElementById("field-text");
let stop = null;

const fieldsOf = (element) => [...element.querySelectorAll("a.field")];

function describe(field) {
  const cell = field.closest("td");
  const machine = map.tHead.rows[0].cells[cell.cellIndex].dataset.name;
  const row = cell.parentElement.cells[0].textContent.trim();
  fieldText.textContent = `${machine} · ${row} · ${field.getAttribute("aria-label")}`;
}

function stopAt(field) {
  stop.tabIndex = -1;
  stop = field;
  stop.tabIndex = 0;
  stop.focus();
}

function nextTo(field, key) {
  const row = field.closest("tr");
  const here = fieldsOf(row);
  const place = here.indexOf(field);
  if (key === "ArrowLeft") return here[place - 1];
  if (key === "ArrowRight") return here[place + 1];
  if (key === "Home") return here[0];
  if (key === "End") return here.at(-1);
  if (key !== "ArrowDown" && key !== "ArrowUp") return undefined;
  const column = field.closest("td").cellIndex;
  const size = fieldsOf(field.closest("td")).indexOf(field);
  let other = row;
  while ((other = key === "ArrowDown" ? other.nextElementSibling : other.previousElementSibling)) {
    const fields = other.cells[column] ? fieldsOf(other.cells[column]) : [];
    if (fields.length) return fields[Math.min(size, fields.length - 1)];
  }
  return undefined;
}

if (map) {
  const fields = fieldsOf(map);
  for (const field of fields) field.tabIndex = -1;
  stop = fields[0];
  if (stop) stop.tabIndex = 0;
  map.addEventListener("keydown", (event) => {
    const field = event.target.closest("a.field");
    const next = field && nextTo(field, event.key);
    if (!next) return;
    event.preventDefault();
    stopAt(next);
  });
  for (const type of ["focusin", "pointerover"]) {
    map.addEventListener(type, (event) => {
      const field = event.target.closest("a.field");
      if (field) describe(field);
    });
  }
}

