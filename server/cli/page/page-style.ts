/** The style of every page: dark or light as the reader's system is, from 360 pixels upwards, and for paper. */
const lightHues = ["#0b62c4", "#b3261e", "#1b7a34", "#8a5a00", "#6a3fb5", "#00707a", "#b0246e", "#5b6470"];
const darkHues = ["#6cb0ff", "#ff8a80", "#69d08a", "#e8b04a", "#bda0ff", "#4fd0dc", "#ff8ac4", "#a8b2bd"];
const rulesOf = (hues: readonly string[]): string =>
  hues.map((hue, at) => `.hue-${at}{--hue:${hue}}`).join("\n");

export const pageStyle = `:root{color-scheme:light dark;--paper:#fff;--tint:#f4f6f8;--mark:#fff6d6;--ink:#1b1f24;--soft:#57606a;
--line:#d5dbe1;--link:#0b57b0}
${rulesOf(lightHues)}
.hue-none{--hue:#8b949e}
@media (prefers-color-scheme:dark){
:root{--paper:#14171b;--tint:#1d2228;--mark:#3a3214;--ink:#e6e9ec;--soft:#a3adb8;--line:#343b43;--link:#7db7ff}
${rulesOf(darkHues)}
}
*{box-sizing:border-box}
[hidden]{display:none!important}
html{scroll-padding-block:3.5rem;-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:.9375rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
header,nav,main,footer{max-inline-size:90rem;margin-inline:auto;padding-inline:1rem}
@media (min-width:48rem){header,nav,main,footer{padding-inline:2rem}}
header{padding-block:1.75rem .5rem}
.kind{margin:0;color:var(--soft);font-size:.8125rem;letter-spacing:.06em;text-transform:uppercase}
h1{margin:0;font-size:1.75rem;line-height:1.25;font-weight:650}
h2{margin:0 0 .75rem;font-size:1.1875rem;font-weight:650}
h3{margin:1.25rem 0 .5rem;font-size:1rem}
header p:not(.kind){margin:.25rem 0 0}
.message{white-space:pre-wrap}
nav ul{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;margin:0;padding:.5rem 0;list-style:none;border-block-end:1px solid var(--line)}
nav a,td a,th a,dd a,li a,p a{display:inline-block;padding-block:.125rem}
a{color:var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:2px}
section{padding-block:1.5rem .5rem}
small,.soft{color:var(--soft);font-size:.8125rem}
code,.id{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em}
footer{padding-block:2rem;color:var(--soft);font-size:.8125rem}
summary{cursor:pointer;padding-block:.125rem}
.folded{margin-block:.5rem}
.folded>summary{color:var(--link)}
dl{margin:0;display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,22rem),1fr));gap:0 2rem}
dl>div{display:grid;grid-template-columns:minmax(6rem,9rem) 1fr;gap:.75rem;padding-block:.3125rem;border-block-end:1px solid var(--line)}
dt{color:var(--soft)}
dd{margin:0;white-space:pre-wrap}
.tiles{grid-template-columns:repeat(auto-fill,minmax(min(100%,9.5rem),1fr));gap:.75rem;margin-block:.25rem 1rem}
.tiles>div{display:block;padding:.625rem .875rem;border:1px solid var(--line);border-radius:.5rem;background:var(--tint)}
.tiles dt{font-size:.8125rem}
.tiles dd{font-size:1.0625rem;font-weight:600;line-height:1.3}
table,thead,tbody,caption{display:block}
table{inline-size:100%;margin-block:.5rem 1rem;border-block-start:1px solid var(--line)}
caption{text-align:start;color:var(--soft);font-size:.8125rem;padding-block:0 .375rem}
table:has(caption){border-block-start:0}
td:empty{display:none}
tr{position:relative;display:flex;flex-wrap:wrap;gap:.125rem 1rem;padding:.375rem .25rem;border-block-end:1px solid var(--line)}
tbody tr:hover{background:var(--tint)}
.marked,tbody tr:target{background:var(--mark)}
thead{position:absolute;block-size:1px;inline-size:1px;overflow:hidden;clip-path:inset(50%);background:var(--paper)}
thead th{color:var(--soft);font-size:.8125rem;font-weight:600}
th,td{padding:0;text-align:start;font-weight:400;min-inline-size:0;max-inline-size:100%}
th[scope=row]{flex:1 0 100%;font-weight:600}
td::before{content:attr(data-label);content:attr(data-label)/"";display:block;color:var(--soft);font-size:.75rem;line-height:1.3}
th dl{font-weight:400;margin-block:.25rem .5rem}
.lanes{position:absolute;inset-block:0;inset-inline-start:0;block-size:100%;overflow:visible;pointer-events:none}
.lanes line{stroke:var(--hue);stroke-width:2}
.plain-lanes .lanes line{stroke:var(--soft);stroke-width:1.5}
.lanes circle{fill:var(--hue);stroke:var(--hue);stroke-width:2}
.lanes .hollow{fill:var(--paper)}
.filtered .lanes line{display:none}
.filter{display:flex;flex-wrap:wrap;align-items:center;gap:.5rem 1rem;margin-block:.75rem}
.filter label{display:flex;align-items:center;gap:.5rem;flex:0 1 24rem}
input{font:inherit;flex:1;min-inline-size:0;inline-size:100%;padding:.375rem .625rem;border:1px solid var(--soft);border-radius:.375rem;
background:var(--paper);color:inherit}
.chip{display:inline-block}
.chip::before{content:"";display:inline-block;inline-size:.625rem;block-size:.625rem;margin-inline-end:.375rem;border-radius:50%;
background:var(--hue)}
td:has(.bar){position:relative;padding-block-end:.375rem}
.bar{display:block;inline-size:100%;block-size:3px;border-radius:2px}
td .bar{position:absolute;inset-inline:0;inset-block-end:0}
.bar rect{fill:var(--hue)}
.share{block-size:.875rem;margin-block:.25rem .5rem}
.differs{font-weight:600}
.differs::after{content:" ≠";content:" ≠"/" differs";color:var(--link)}
.legend{display:flex;flex-wrap:wrap;gap:.125rem 1.25rem;margin:.25rem 0 0;padding:0;list-style:none;font-size:.8125rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:1.5rem}
.chart{margin:0;min-inline-size:0}
figcaption{font-weight:600}
figcaption small{font-weight:400}
.plot{display:grid;grid-template-columns:auto minmax(0,1fr);gap:.25rem .5rem;margin-block-start:.75rem}
.plot svg{inline-size:100%;block-size:13rem;overflow:visible}
.plot path,.swatch path{fill:none;stroke:var(--hue);stroke-width:2;vector-effect:non-scaling-stroke;stroke-linecap:round;
stroke-linejoin:round}
.plot .grid{stroke:var(--line);stroke-width:1}
.plot .dots{stroke-width:6}
.dash-1{stroke-dasharray:7 5}.dash-2{stroke-dasharray:1 5}.dash-3{stroke-dasharray:10 4 1 4}
.y-axis,.x-axis{display:flex;justify-content:space-between;color:var(--soft);font-size:.75rem;line-height:1rem;white-space:nowrap}
.y-axis{flex-direction:column;text-align:end;margin-block:-.5rem}
.x-axis{grid-column:2}
.tree{margin:0;padding-inline-start:0;list-style:none}
.tree .tree{padding-inline-start:1rem;border-inline-start:1px solid var(--line);margin-inline-start:.25rem}
.tree li>code{white-space:pre-wrap}
.tree .name{color:var(--soft)}
@media print{
:root{--paper:#fff;--tint:#fff;--mark:#eee;--ink:#000;--soft:#444;--line:#bbb;--link:#000}
nav,.filter{display:none}
table tbody{content-visibility:visible!important}
tr,figure,dl>div{break-inside:avoid}
body{font-size:10pt}
}
`;
