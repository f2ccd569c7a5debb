"use strict";
(() => {
  const specs = JSON.parse(document.getElementById("figures").textContent);
  const PRINTED = 680; // px: the width of an A4 page with margins

  // Colours come from the style sheet, so that charts follow light, dark and print.
  const colours = () => {
    const style = getComputedStyle(document.documentElement);
    const of = name => style.getPropertyValue(name).trim();
    const axis = { color: of("--ink"), gridcolor: of("--grid"), zerolinecolor: of("--grid") };
    const changes = { "font.color": of("--ink") };
    for (const name of ["xaxis", "yaxis", "yaxis2"])
      for (const [key, value] of Object.entries(axis)) changes[`${name}.${key}`] = value;
    return changes;
  };
  const fitting = (spec, changes) =>
    Object.fromEntries(Object.entries(changes).filter(([key]) => !key.startsWith("yaxis2") || "yaxis2" in spec.layout));

  const drawn = new Set();
  const draw = div => {
    if (drawn.has(div)) return;
    drawn.add(div);
    const spec = specs[div.dataset.figure];
    Plotly.newPlot(div, spec.data, spec.layout, {
      responsive: true, displaylogo: false, modeBarButtons: [["toImage", "resetScale2d"]] });
    Plotly.relayout(div, fitting(spec, colours()));
  };
  const recolour = more => drawn.forEach(div =>
    Plotly.relayout(div, { ...fitting(specs[div.dataset.figure], colours()), ...more }));

  const charts = [...document.querySelectorAll(".chart")];
  const seen = new IntersectionObserver(
    entries => entries.forEach(e => { if (e.isIntersecting) { seen.unobserve(e.target); draw(e.target); } }),
    { rootMargin: "600px" });
  charts.forEach(div => seen.observe(div));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => recolour({}));
  // beforeprint comes before pages are counted, so that what grows must grow there; the colours of print apply later.
  const closed = [];
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details:not([open])").forEach(d => { closed.push(d); d.open = true; });
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => closed.splice(0).forEach(d => { d.open = false; }));
  matchMedia("print").addEventListener("change", query => {
    if (query.matches) charts.forEach(draw);
    recolour(query.matches ? { width: PRINTED } : { width: null, autosize: true });
  });

  // Sorting: numbers by data-v, text by itself; cells without a figure stay last.
  const value = cell => cell.dataset.v === undefined ? cell.textContent : cell.dataset.v === "" ? null : Number(cell.dataset.v);
  document.querySelectorAll("table.sortable").forEach(table => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach(h => h.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = table.tBodies[0];
      const rows = [...body.rows].map(row => [value(row.cells[column]), row]);
      const compare = (a, b) => typeof a === "number" ? a - b : a.localeCompare(b, undefined, { numeric: true });
      rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b));
      body.append(...rows.map(([, row]) => row));
    }));
  });
})();
