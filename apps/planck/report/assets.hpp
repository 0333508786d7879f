// The style sheet and the script of the HTML report. The page's content security policy lets only this script run, by
// its hash: whoever changes it changes kReportScriptHash, and the test of the report in Chromium prints the right one.
#pragma once

#include <string_view>

namespace planck::cli {

inline constexpr std::string_view kReportStyle = R"css(
:root { color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1d1f26; --muted: #5f636f; --line: #e3e3df; --hover: #f0f1f4;
  --target: #fff3c4; --quantized: #2f62d9; --copied: #b9bcc6; --lowest: #0b7f73; --highest: #86cbbf;
  --mean: #8a5cd6; --largest: #d2600f; --range: #c2608f; --scale: #8a9729; }
@media (prefers-color-scheme: dark) { :root {
  --page: #13141a; --card: #1b1d25; --ink: #e7e8ee; --muted: #a0a4b2; --line: #2d303c; --hover: #242731;
  --target: #40391d; --quantized: #82a5ff; --copied: #585d6e; --lowest: #45c7b4; --highest: #23776d;
  --mean: #b794f6; --largest: #f3a25c; --range: #d9799f; --scale: #a9b74c; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
main { max-width: 1440px; margin: 0 auto; padding: 36px 28px 64px; }
h1 { font-size: 28px; line-height: 1.25; margin: 0 0 4px; letter-spacing: -.01em; overflow-wrap: break-word; }
h2 { font-size: 17px; margin: 40px 0 12px; }
a { color: inherit; }
:focus-visible { outline: 2px solid var(--ink); outline-offset: 1px; border-radius: 4px; }
[hidden] { display: none !important; }
.muted, figcaption, dt { color: var(--muted); }
.brand { color: var(--muted); font-size: 12px; font-weight: 650; letter-spacing: .09em; text-transform: uppercase;
  margin: 0 0 6px; }
.path { color: var(--muted); margin: 0; font-size: 13px; overflow-wrap: break-word; }
.path span, .card a, td:first-child { unicode-bidi: isolate; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(210px, 1fr)); gap: 14px; margin: 26px 0 14px; }
.card, figure, .sizes, .scroll { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 14px 18px 15px; }
.card b { display: block; font-size: 25px; line-height: 1.3; font-weight: 620; letter-spacing: -.01em;
  font-variant-numeric: tabular-nums; }
.card span { color: var(--muted); font-size: 13.5px; overflow-wrap: break-word; }
.card a { display: block; color: var(--ink); text-decoration-color: var(--copied); text-underline-offset: 2px; }
.sizes { padding: 14px 18px; display: grid; grid-template-columns: auto 1fr; gap: 8px 14px; align-items: center;
  font-size: 13.5px; }
.track { display: flex; height: 16px; gap: 2px; }
.track i { display: block; border-radius: 3px; min-width: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; color: var(--muted); font-size: 13px; }
.sizes .legend { grid-column: 2; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin-right: 6px; }
.round { border-radius: 50%; }
.beyond { border: 2px solid var(--muted); }
.quantized { background: var(--quantized); } .copied { background: var(--copied); }
dl { display: flex; flex-wrap: wrap; gap: 4px 26px; margin: 18px 0 0; font-size: 13.5px; }
dl div { display: flex; gap: 7px; } dd { margin: 0; overflow-wrap: anywhere; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(460px, 100%), 1fr)); gap: 14px; }
figure { margin: 0; padding: 14px 18px 10px; min-width: 0; }
.noise { --one: var(--lowest); --two: var(--highest); } .errors { --one: var(--mean); --two: var(--largest); }
.range { --one: var(--range); } .scales { --one: var(--scale); }
figcaption { font-size: 13.5px; } figcaption b { color: var(--ink); font-weight: 620; }
.plot { display: grid; grid-template-columns: auto 1fr; gap: 3px 8px; margin-top: 8px; }
.axis { height: 190px; text-align: right; }
.axis .tick { display: block; position: relative; height: 0; line-height: 0; }
.tick { color: var(--muted); font-size: 12px; font-variant-numeric: tabular-nums; }
.ends { grid-column: 2; display: flex; justify-content: space-between; }
svg { display: block; width: 100%; min-width: 0; height: 190px; }
svg path { fill: none; vector-effect: non-scaling-stroke; }
.grid { stroke: var(--line); } .zero { stroke: var(--muted); }
.key.one, .key.bar { background: var(--one); } .key.two { background: var(--two); }
.dot, .hole { stroke-linecap: round; --size: clamp(3px, 380px / var(--marks), 8px); stroke-width: var(--size); }
.dot.one { stroke: var(--one); } .dot.two { stroke: var(--two); }
.hole { stroke: var(--card); stroke-width: calc(var(--size) / 2); }
.join { stroke: var(--two); stroke-opacity: .4; }
rect { shape-rendering: crispEdges; }
.span { fill: var(--two); fill-opacity: .18; } rect.bar { fill: var(--one); }
.hit { fill: transparent; } a:hover .hit, a:focus-visible .hit { fill: var(--ink); fill-opacity: .1; }
.tools { display: flex; flex-wrap: wrap; gap: 8px 20px; align-items: center; margin: 0 0 10px; font-size: 14px; }
.tools label { display: flex; gap: 7px; align-items: center; }
.tools input { accent-color: var(--ink); }
.tools input[type=search] { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 7px; padding: 5px 10px; width: 260px; }
.tools button { font: inherit; color: inherit; background: none; border: 0; padding: 0; cursor: pointer;
  text-decoration: underline; }
.scroll { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-size: 12.5px;
  font-variant-numeric: tabular-nums; }
th { text-align: right; vertical-align: bottom; padding: 0; border-bottom: 1px solid var(--line); }
th.text { text-align: left; }
th button { all: unset; cursor: pointer; position: relative; padding: 9px 5px 7px; font-weight: 600;
  color: var(--muted); white-space: nowrap; }
th button:hover, th[aria-sort] button { color: var(--ink); }
th button:focus-visible { outline: 2px solid var(--ink); outline-offset: -2px; border-radius: 6px; }
th button::after { content: "\2195"; opacity: 0; position: absolute; right: -3px; font-weight: 400; }
th button:hover::after { opacity: .5; }
th[aria-sort] button::after { content: "\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\2193"; }
td { text-align: right; padding: 5px; border-bottom: 1px solid var(--line); white-space: nowrap; }
td:first-child { text-align: left; white-space: normal; min-width: 30ch; padding-left: 12px;
  font-family: ui-monospace, monospace; font-size: 11.5px; }
th:first-child button { padding-left: 12px; } td:last-child, th:last-child button { padding-right: 12px; }
td.text { text-align: left; } .c td.text + td.text { white-space: normal; min-width: 130px; }
tbody tr:last-child td { border-bottom: 0; } tbody tr.c { color: var(--muted); }
tbody tr:hover td { background: var(--hover); } tbody tr:target td { background: var(--target); }
@media (min-width: 701px) {
  td:first-child, th:first-child { position: sticky; left: 0; z-index: 1; background: var(--card); }
}
@media (max-width: 700px) {
  main { padding: 22px 16px 48px; }
  h1 { font-size: 23px; }
  .cards { grid-template-columns: 1fr 1fr; gap: 10px; margin-top: 20px; }
  .card { padding: 11px 14px 12px; } .card b { font-size: 21px; } .card span { font-size: 13px; }
  .card:nth-child(5) { grid-column: 1 / -1; }
  .sizes { padding: 12px 14px; } figure { padding: 12px 14px 8px; }
  .dot, .hole { --size: clamp(2.5px, 190px / var(--marks), 7px); }
  .tools input[type=search] { width: 100%; font-size: 16px; }
  table, tbody { display: block; }
  thead tr { display: flex; flex-wrap: wrap; gap: 7px; padding: 10px 14px; border-bottom: 1px solid var(--line); }
  thead tr::before { content: "Sort by"; color: var(--muted); font-size: 13px; align-self: center; }
  th { border: 0; }
  th button, th:first-child button, th:last-child button { padding: 4px 10px; border: 1px solid var(--line);
    border-radius: 14px; font-size: 13px; font-weight: 400; }
  th[aria-sort] button { padding-right: 20px; border-color: var(--ink); } th button::after { right: 7px; }
  tbody tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(140px, 1fr)); gap: 1px 14px;
    padding: 9px 14px 10px; border-bottom: 1px solid var(--line); }
  tbody tr:hover td, tbody tr:target td { background: none; } tbody tr:target { background: var(--target); }
  td, td:first-child, td:last-child, .c td.text + td.text { display: flex; padding: 0; border: 0; min-width: 0;
    text-align: left; font-size: 13px; white-space: normal; }
  td::before { flex: 0 0 76px; color: var(--muted); }
  td:nth-child(n + 5):not([data-v]) { display: none; }
  td:first-child { display: block; margin-bottom: 2px; } td:nth-child(n + 9) { order: -1; }
  td:first-child, td:nth-child(4), td:nth-child(7), td:nth-child(8) { grid-column: 1 / -1; order: 1; }
  td:first-child { order: -2; }
}
@media print { .tools { display: none; } main { max-width: none; padding: 0; } figure, .card { break-inside: avoid; } }
)css";

inline constexpr std::string_view kReportScript = R"js(
"use strict";
const body = document.querySelector("tbody");
const rows = Array.from(body.rows);
const heads = Array.from(document.querySelectorAll("th"));
const texts = new Intl.Collator("en", { numeric: true });
const value = (row, column) => row.cells[column].dataset.v;
const whole = (row, column) => value(row, column) ?? row.cells[column].textContent;
function order(column, down) {
  const text = heads[column].classList.contains("text");
  const sign = down ? -1 : 1;
  // Cells without a number stay at the end, whichever way.
  return (a, b) => {
    if (text) return sign * texts.compare(whole(a, column), whole(b, column));
    const x = value(a, column), y = value(b, column);
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
    const match = whole(row, 0).toLowerCase().includes(part) && !(only.checked && row.className === "c");
    matches += match;
    row.hidden = !match || matches > limit;
  }
  const visible = Math.min(matches, limit);
  const all = rows.length + (rows.length === 1 ? " tensor" : " tensors");
  shown.textContent = visible === rows.length ? all : visible + " of " + all;
  more.hidden = matches <= limit;
}
search.addEventListener("input", show);
only.addEventListener("change", show);
more.addEventListener("click", () => { limit = Infinity; show(); });
// A mark of a plot leads to its row, also if that is not shown.
function reveal() {
  const row = document.querySelector("tr:target");
  if (!row) return;
  row.hidden = false;
  row.scrollIntoView({ block: "center" });
}
addEventListener("hashchange", reveal);
show();
reveal();
)js";

inline constexpr std::string_view kReportScriptHash = "sha256-14t3pkC+QJDC79i0o/WrBxf3PLmlSRDIKW5VWD7SZP8=";

}  // namespace planck::cli
