"use strict";

// A click on the head of a column sorts by it; another one turns the order round.
for (const table of document.querySelectorAll(".kernels")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    head.firstChild.addEventListener("click", () => {
      const value = (row) => row.cells[column].dataset.value;
      const text = (row) => row.cells[column].textContent;
      const numbers = [...body.rows].every((row) => value(row) !== undefined);
      const down = numbers ? "descending" : "ascending";
      const up = numbers ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === down ? up : down;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) =>
        sign * (numbers ? value(a) - value(b) : text(a).localeCompare(text(b)));
      body.append(...[...body.rows].sort(compare));
    });
  });
}
