// Tables that sort by any column. A row whose first cell is empty or begins with a dash belongs to the row above it.

const BEST = { 1: "first", 2: "second", 3: "third" };

/** Group each row with the rows that belong to it. */
function families(rows) {
  const found = [];
  for (const row of rows) {
    if (found.length && (row[0].text === "" || row[0].text.startsWith("–"))) found[found.length - 1].push(row);
    else found.push([row]);
  }
  return found;
}

/** Number at the start of a text, or null. */
function value(text) {
  const found = text.replace(/−/g, "-").replace(/(\d)[, ](?=\d{3}\b)/g, "$1").match(/^[<+\s]*(-?\d+(\.\d+)?(e-?\d+)?)/i);
  return found ? Number(found[1]) : null;
}

/** Sort key of a group: the first number in the column, else the text of its first row. */
function standing(family, column) {
  const numbers = family.map((row) => value(row[column].text)).filter((found) => found !== null);
  return numbers.length && column > 0 ? numbers[0] : family[0][column].text;
}

function compare(a, b) {
  if (typeof a === typeof b) return typeof a === "number" ? a - b : a.localeCompare(b);
  return typeof a === "number" ? -1 : 1; // rows without a number come last
}

function drawTable(table) {
  const body = html("tbody");
  const groups = families(table.rows);
  const heads = [];
  const lines = (family) =>
    family.map((row, k) =>
      html(
        "tr",
        { class: k > 0 && row.slice(0, 2).some((cell) => cell.text !== "") ? "below" : row[0].text.endsWith("(paper)") ? "printed" : "" },
        ...row.map((cell, column) => {
          const signed = /^[+−]\d/.test(cell.text) && row[0].text.includes("difference");
          const kind = [BEST[cell.place] ?? "", signed ? (cell.text.startsWith("+") ? "more" : "less") : "", ["missing", "diverged"].includes(cell.text) ? "missing" : ""];
          return html(column === 0 ? "th" : "td", { scope: column === 0 ? "row" : null, class: kind.join(" ").trim() || null }, cell.text);
        }),
      ),
    );
  const fillBody = (order) => body.replaceChildren(...order.flatMap(lines));
  const sort = (column) => {
    const now = heads[column].getAttribute("aria-sort");
    const first = groups.some((family) => typeof standing(family, column) === "number") ? "descending" : "ascending";
    const next = now === "none" ? first : now === first ? (first === "ascending" ? "descending" : "ascending") : "none";
    heads.forEach((head) => head.setAttribute("aria-sort", "none"));
    heads[column].setAttribute("aria-sort", next);
    if (next === "none") return fillBody(groups);
    const sign = next === "ascending" ? 1 : -1;
    return fillBody(
      [...groups].sort((a, b) => {
        const [left, right] = [standing(a, column), standing(b, column)];
        return typeof left === typeof right ? sign * compare(left, right) : compare(left, right);
      }),
    );
  };
  table.columns.forEach((name, column) => {
    heads.push(html("th", { scope: "col", "aria-sort": "none" }, html("button", { type: "button", onclick: () => sort(column) }, name)));
  });
  fillBody(groups);
  const element = html("table", {}, html("thead", {}, html("tr", {}, ...heads)), body);
  const parts = [html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title }, element)];
  if (groups.some((family) => family.length > 1) && groups.some((family) => family[0].slice(1).some((cell) => cell.text))) {
    const box = html("input", { type: "checkbox", checked: true, onchange: () => element.classList.toggle("alone", !box.checked) });
    parts.unshift(html("label", { class: "beside" }, box, " show the paper’s values"));
  }
  return html("div", { class: "table" }, ...parts);
}
