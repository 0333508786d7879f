// The style sheet and the script of the HTML report. The page's content security policy lets only this script run, by
// its hash: whoever changes it changes kReportScriptHash, and the test of the report in Chromium prints the right one.
#pragma once

#include <string_view>

namespace planck::cli {

inline constexpr std::string_view kReportStyle = R"css(
:root { color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1d1f26; --muted: #656975; --line: #e3e3df;
  --low: #2f62d9; --high: #cf5a10; --soft: #2f62d91f; --copied: #b9bcc6; }
@media (prefers-color-scheme: dark) { :root {
  --page: #13141a; --card: #1b1d25; --ink: #e7e8ee; --muted: #9a9eac; --line: #2d303c;
  --low: #82a5ff; --high: #f3a25c; --soft: #82a5ff26; --copied: #585d6e; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1440px; margin: 0 auto; padding: 36px 28px 64px; }
h1 { font-size: 26px; line-height: 1.25; margin: 0 0 2px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 40px 0 12px; }
a { color: inherit; }
.muted, figcaption, dt { color: var(--muted); }
.brand { color: var(--low); font-size: 13px; font-weight: 650; letter-spacing: .09em; text-transform: uppercase; margin: 0 0 6px; }
.path { color: var(--muted); margin: 0; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 14px; margin: 26px 0 14px; }
.card, figure, .sizes, .scroll { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 14px 18px 15px; }
.card b { display: block; font-size: 25px; line-height: 1.3; font-weight: 620; letter-spacing: -.01em; font-variant-numeric: tabular-nums; }
.card span { color: var(--muted); font-size: 13.5px; overflow-wrap: anywhere; }
.sizes { padding: 14px 18px; display: grid; grid-template-columns: auto 1fr; gap: 8px 14px; align-items: center; font-size: 13.5px; }
.track { display: flex; height: 16px; gap: 2px; }
.track i { display: block; border-radius: 3px; min-width: 1px; }
.quantized { background: var(--low); } .copied { background: var(--copied); }
.legend { grid-column: 2; color: var(--muted); }
.key { display: inline-block; width: 9px; height: 9px; border-radius: 3px; margin: 0 5px 0 0; }
.key + .key, .legend .copied { margin-left: 14px; }
dl { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 18px 0 0; font-size: 13.5px; }
dl div { display: flex; gap: 7px; } dd { margin: 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; padding: 14px 16px 8px; }
figcaption { font-size: 13.5px; min-height: 3em; } figcaption b { color: var(--ink); font-weight: 620; }
figcaption .key { border-radius: 50%; margin-left: 3px; }
.one { background: var(--low); } .two { background: var(--high); }
svg { display: block; width: 100%; height: auto; }
.grid { stroke: var(--line); } .zero { stroke: var(--muted); }
.tick { fill: var(--muted); font-size: 11px; font-variant-numeric: tabular-nums; }
.join { stroke: var(--copied); } .low, .bar { fill: var(--low); } .high { fill: var(--high); }
.hollow { fill: var(--card); stroke: var(--low); stroke-width: 1.5; } .high.hollow { stroke: var(--high); }
.hit { fill: transparent; } a:hover .hit, a:focus-visible .hit { fill: var(--soft); }
.tools { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; margin: 0 0 10px; font-size: 14px; }
.tools input[type=search] { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 7px; padding: 5px 10px; width: 260px; }
.tools button { font: inherit; color: var(--low); background: none; border: 0; padding: 0; cursor: pointer; text-decoration: underline; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 12.5px; font-variant-numeric: tabular-nums; }
th { text-align: right; vertical-align: bottom; padding: 0; border-bottom: 1px solid var(--line); }
th:first-child, th.text { text-align: left; }
th button { all: unset; cursor: pointer; position: relative; padding: 9px 7px 7px; font-weight: 600; color: var(--muted); white-space: nowrap; }
th button:hover, th[aria-sort] button { color: var(--ink); } th button:focus-visible { outline: 2px solid var(--low); border-radius: 6px; }
th button::after { content: "\2195"; opacity: 0; position: absolute; right: -3px; font-weight: 400; }
th button:hover::after { opacity: .5; } th[aria-sort] button::after { content: "\2191"; opacity: 1; } th[aria-sort=descending] button::after { content: "\2193"; }
td { text-align: right; padding: 5px 7px; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere; min-width: 240px; font-family: ui-monospace, monospace; font-size: 12px; unicode-bidi: isolate; }
td.text { text-align: left; } td.text + td.text { white-space: normal; }
tbody tr:last-child td { border-bottom: 0; } tbody tr:hover { background: var(--soft); } tbody tr.c { color: var(--muted); }
tr:target { background: var(--soft); box-shadow: inset 3px 0 var(--low); } [hidden] { display: none; }
@media print { .tools { display: none; } main { max-width: none; padding: 0; } figure, .card { break-inside: avoid; } }
)css";

inline constexpr std::string_view kReportScript = R"js(
"use strict";
const body = document.querySelector("tbody");
const rows = Array.from(body.rows);
const heads = Array.from(document.querySelectorAll("th"));
const texts = new Intl.Collator("en", { numeric: true });
const value = (row, column) => row.cells[column].dataset.v;
function order(column, down) {
  const text = heads[column].classList.contains("text");
  const sign = down ? -1 : 1;
  // Cells without a number stay at the end, whichever way.
  return (a, b) => {
    const x = value(a, column), y = value(b, column);
    if (text) return sign * texts.compare(x ?? a.cells[column].textContent, y ?? b.cells[column].textContent);
    if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);
    return sign * (x - y);
  };
}
heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
  const now = head.getAttribute("aria-sort");
  const down = now ? now === "ascending" : !head.classList.contains("text");
  heads.forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  rows.sort(order(column, down));
  for (const row of rows) body.append(row);
  show();
}));
const search = document.querySelector("input[type=search]");
const only = document.querySelector("input[type=checkbox]");
const shown = document.querySelector("output");
const more = document.querySelector(".tools button");
let limit = 1000;
// Browsers take a second for every thousand rows: the first ones that match, unless all are wanted.
function show() {
  const part = search.value.toLowerCase();
  let matches = 0;
  for (const row of rows) {
    const match = row.cells[0].textContent.toLowerCase().includes(part) && !(only.checked && row.className === "c");
    matches += match;
    row.hidden = !match || matches > limit;
  }
  const visible = Math.min(matches, limit);
  shown.textContent = visible === rows.length ? visible + " tensors" : visible + " of " + rows.length + " tensors";
  more.hidden = matches <= limit;
}
search.addEventListener("input", show);
only.addEventListener("change", show);
more.addEventListener("click", () => { limit = Infinity; show(); });
// A mark of a plot leads to its row, also if that is not shown.
addEventListener("hashchange", () => {
  const row = document.querySelector("tr:target");
  if (row && row.hidden) { row.hidden = false; row.scrollIntoView({ block: "center" }); }
});
show();
)js";

inline constexpr std::string_view kReportScriptHash = "sha256-L3T42/TcQ9wCfR+OHbVPO53MJ3kB+4U9CwYDau4aCCw=";

}  // namespace planck::cli
