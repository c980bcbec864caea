// Tables as CSV (RFC 4180). Values that a page rounds are read from `data-value`, times from `datetime`. A part of a cell
// with `data-column` becomes a column of its own.
const NUMBER = /^[+\-−]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?$/i;
const FORMULA = /^[=+\-@\t\r]/; // spreadsheets evaluate such text
const OMITTED = "[data-column], .badge, .visually-hidden, .by, td button, svg";

export function toCsv(rows) {
  return rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
}

// Numbers stay as they are. Text that a spreadsheet would evaluate gets an apostrophe.
function quoted(value) {
  const text = value == null ? "" : String(value);
  const safe = typeof value === "string" && FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

// Rows of a table, the headings first. Rows that span the table and columns of buttons are omitted.
export function rowsOf(table) {
  const lines = [...table.tBodies].flatMap((body) => [...body.rows]).filter((line) => !line.querySelector("[colspan]"));
  const cells = lines.map((line) => [...line.cells].map(fieldsOf));
  const titles = [...(table.tHead?.rows[0]?.cells ?? [])].map(({ textContent }) => collapsed(textContent));
  const columns = [];
  for (let place = 0; cells.some((line) => place < line.length); place += 1) {
    for (const name of new Set(cells.flatMap((line) => Object.keys(line[place] ?? {})))) {
      columns.push({ place, name, title: [titles[place], name].filter(Boolean).join(" ") });
    }
  }
  const body = cells.map((line) => columns.map(({ place, name }) => line[place]?.[name]));
  return titles.length ? [columns.map(({ title }) => title), ...body] : body;
}

// Values of a cell by the name of their column. The main value has no name.
function fieldsOf(cell) {
  const parts = [...cell.querySelectorAll("[data-column]")];
  const named = parts.map((part) => [part.dataset.column, valueOf(part)]);
  const value = valueOf(cell);
  const hasMain = value !== "" || !(parts.length || cell.querySelector("button, input"));
  return Object.fromEntries(hasMain ? [["", value], ...named] : named);
}

function valueOf(element) {
  const own = (each) => each.closest("[data-column]") === element.closest("[data-column]");
  const exact = [element, ...element.querySelectorAll("[data-value], time[datetime]")].find((each) => {
    return (each.dataset.value !== undefined || each.dateTime) && own(each);
  });
  if (exact) return exact.dateTime ?? Number(exact.dataset.value);
  const text = textOf(element);
  // Numbers of a page have separators of thousands.
  return element.matches(".number") && NUMBER.test(text) ? Number(text.replaceAll(",", "").replace("−", "-")) : text;
}

function textOf(element) {
  const rest = element.cloneNode(true);
  for (const part of rest.querySelectorAll(OMITTED)) part.remove();
  const onlyBadge = !rest.textContent.trim() && !element.querySelector("button, input, [data-column]");
  const text = collapsed((onlyBadge ? element : rest).textContent);
  return text === "–" ? "" : text;
}

function collapsed(text) {
  return text.replace(/\s+/g, " ").trim();
}
