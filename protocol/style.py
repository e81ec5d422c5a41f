"""How a page looks: on a phone, on a desk, and on paper without colour.

One constant. It may name no font, picture or page that would have to be fetched, and no
text that comes from a session may ever be put into it.
"""

STYLE = """
:root {
  --ink: #17212b; --soft: #55626e; --hair: #cfd6dc; --pale: #e9eef2;
  --line: #0b4f8a; --faint: #9fb4c6; --alarm: #9c1f17;
  --text: "Iowan Old Style", "Palatino Linotype", Palatino, Georgia, "Liberation Serif", serif;
  --data: system-ui, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", Arial, sans-serif;
}
* { box-sizing: border-box; }
html { color-scheme: light; background: #fff; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 64rem; padding: 2.5rem 1.25rem 4rem;
  color: var(--ink); font: 1.0625rem/1.55 var(--text); overflow-wrap: anywhere;
}
h1 { margin: 0; font-size: clamp(2rem, 6vw, 3rem); line-height: 1.1; font-weight: 600; }
h2 {
  margin: 0 0 .75rem; padding-top: .7rem; border-top: 2px solid var(--ink);
  font-size: 1.5rem; line-height: 1.2; font-weight: 600;
}
h3 { margin: 0 0 .25rem; font: .875rem/1.4 var(--data); color: var(--soft); }
p { margin: 0 0 1rem; max-width: 42rem; }
section { margin-top: 3.25rem; }
.eyebrow {
  margin-bottom: .6rem; font: 600 .8125rem/1.4 var(--data); letter-spacing: .08em;
  text-transform: uppercase; color: var(--soft);
}
.lead { margin-top: .9rem; font-size: 1.2rem; line-height: 1.5; }
.small { font-size: .9375rem; color: var(--soft); }
.part {
  margin: 4.5rem 0 -1rem; padding: .55rem 0; max-width: none; border-block: 1px solid var(--hair);
  font: 600 .8125rem/1.4 var(--data); letter-spacing: .08em; text-transform: uppercase;
  color: var(--soft); text-align: center;
}
.callout {
  margin: 1.25rem 0; padding: .8rem 1rem; max-width: none;
  border: 2px solid var(--ink); border-left-width: .6rem; font-weight: 600;
}
.banner {
  margin: 0 0 2.5rem; padding: 1.1rem 1.25rem; max-width: none; color: #fff;
  background: var(--alarm); border: 4px solid var(--alarm);
  outline: 2px solid #fff; outline-offset: -8px;
  font: 700 1.25rem/1.35 var(--data); letter-spacing: .02em; text-align: center;
}
.facts {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(9.5rem, 100%), 1fr));
  gap: 1.1rem 1.5rem; margin: 1.75rem 0 1.25rem; font-family: var(--data);
}
.facts div { border-top: 1px solid var(--ink); padding-top: .45rem; }
.facts dt { font-size: .8125rem; line-height: 1.35; color: var(--soft); }
.facts dd {
  margin: .15rem 0 0; font-size: 1.3rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums;
}
.grid {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(18.5rem, 100%), 1fr));
  gap: 2rem 2.25rem; align-items: start; margin: 1.5rem 0;
}
.grid > * { min-width: 0; break-inside: avoid; }
table {
  width: 100%; border-collapse: collapse; font: .875rem/1.4 var(--data);
  font-variant-numeric: tabular-nums;
}
section > table { margin: 1.25rem 0; }
table.narrow { max-width: 30rem; }
caption { padding-bottom: .35rem; text-align: left; font-size: 1rem; font-weight: 600; }
caption span { font-weight: 400; color: var(--soft); }
th, td { padding: .42rem 0 .42rem .75rem; vertical-align: baseline; text-align: right; }
th:first-child { padding-left: 0; text-align: left; }
thead th {
  border-bottom: 1px solid var(--ink); font-size: .8125rem; font-weight: 400;
  color: var(--soft); vertical-align: bottom; overflow-wrap: normal;
}
tbody th { min-width: 6rem; font-weight: 400; }
tbody th span { color: var(--soft); }
tbody tr + tr > * { border-top: 1px solid var(--hair); }
tfoot > tr > * { border-top: 2px solid var(--ink); font-weight: 700; }
tr { break-inside: avoid; }
.n { white-space: nowrap; }
tr:has(.bar) > * { vertical-align: middle; }
td:has(> .bar) { width: 26%; }
.bar { display: block; width: 100%; height: .625rem; }
.track { fill: var(--pale); }
.full { fill: var(--line); }
.half { fill: var(--faint); }
.open { fill: #fff; stroke: var(--line); stroke-width: 2; vector-effect: non-scaling-stroke; }
figure { margin: 0; }
figcaption { font: .875rem/1.4 var(--data); }
figcaption strong { display: block; font-size: 1rem; font-weight: 600; }
figcaption span { color: var(--soft); }
.chart { display: block; width: 100%; height: auto; margin-top: .4rem; }
.chart text {
  font: 10.5px var(--data); fill: var(--soft);
  paint-order: stroke; stroke: #fff; stroke-width: 3px; stroke-linejoin: round;
}
.chart line { stroke: var(--hair); stroke-width: 1; }
.chart .zero { stroke: var(--ink); }
.chart polyline { fill: none; stroke: var(--line); stroke-width: 2; stroke-linejoin: round; }
.chart .raw { stroke: var(--faint); stroke-width: 1; }
code { font: .875rem/1.5 ui-monospace, Menlo, Consolas, "Liberation Mono", monospace; }
pre { margin: 0 0 1rem; padding: .7rem .9rem; background: var(--pale); white-space: pre-wrap; }
@media (max-width: 40rem) {
  body { padding: 1.5rem 1rem 3rem; }
  .lead { font-size: 1.1rem; }
  section { margin-top: 2.5rem; }
}
@page { margin: 18mm 16mm; @bottom-center { content: counter(page); font: 8pt sans-serif; } }
@page private { @top-center { content: "PRIVATE — do not forward"; font: bold 9pt sans-serif; } }
.private { page: private; }
@media print {
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  h1 { font-size: 26pt; }
  p { break-inside: avoid; }
  h2 { font-size: 15pt; break-after: avoid; }
  .lead { font-size: 12pt; }
  section { margin-top: 9mm; }
  section > p { break-after: avoid; }
  section > p:last-child { break-after: auto; }
  .part { break-after: avoid; }
  .facts { grid-template-columns: repeat(auto-fit, minmax(28mm, 1fr)); gap: 4mm 6mm; }
  .facts dd { font-size: 13pt; }
  .grid { grid-template-columns: 1fr 1fr; gap: 7mm 9mm; }
  table, figcaption, .facts dt { font-size: 8.5pt; }
  pre { border: 1px solid var(--ink); }
  .banner { color: #000; background: none; border: 3pt solid #000; outline-color: #000; }
}
"""
