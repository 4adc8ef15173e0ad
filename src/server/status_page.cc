#include "server/status_page.h"

namespace parallax::server {

std::string_view StatusPage() {
  // Everything that comes from outside is set by textContent, never parsed as HTML.
  return R"HTML(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>parallax</title>
<style>
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --good: #2a8; --bad: #c43;
  --busy: #d90; --one: #47c; --two: #b6c; }
@media (prefers-color-scheme: dark) { :root { --quiet: #999; --bad: #e76; } }
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; padding: 12px; max-width: 1100px;
  overflow-wrap: anywhere; }
h1 { font-size: 20px; margin: 4px 0 0; }
h2 { font-size: 16px; margin: 22px 0 8px; }
.quiet { color: var(--quiet); }
#cards { display: grid; gap: 10px; grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); }
.card { border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; min-width: 0; }
.card header { display: flex; justify-content: space-between; gap: 8px; font-weight: 600; }
.state { flex: none; }
.place { font-size: 12px; }
dl { margin: 8px 0 0; font-size: 13px; }
dl div { display: flex; justify-content: space-between; gap: 12px; }
dt { color: var(--quiet); flex: none; } dd { margin: 0; text-align: right; }
.state::before { content: "\25cf"; margin-right: 5px; color: var(--busy); }
.ready::before { color: var(--good); }
.down::before, .breaker-open::before { color: var(--bad); }
.jobs { margin: 8px 0 0; padding: 0; list-style: none; font-size: 13px; }
.jobs li { margin-top: 5px; }
.bar { height: 5px; background: var(--line); border-radius: 3px; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--one); }
.late i { background: var(--busy); }
.decision { border-top: 1px solid var(--line); padding: 7px 0; font-size: 13px; }
.decision .top { display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: baseline; }
.decision .to { font-weight: 600; font-size: 14px; }
.decision .why { margin-top: 2px; }
.times { display: grid; grid-template-columns: 76px 1fr 70px; gap: 2px 8px; align-items: center;
  margin-top: 4px; max-width: 560px; font-size: 12px; }
.times .measured i { background: var(--two); }
.times b { font-weight: 400; text-align: right; }
.error { color: var(--bad); font-size: 13px; }
#lost { color: var(--bad); }
</style>
</head>
<body>
<h1>parallax</h1>
<div class="quiet" id="totals">…</div>
<div id="lost" role="status"></div>
<h2>Backends</h2>
<div id="cards"></div>
<h2>Last decisions</h2>
<div id="decisions"><p class="quiet">None yet.</p></div>
<script>
"use strict";
const make = (tag, cls, text) => {
  const e = document.createElement(tag);
  if (cls) e.className = cls;
  if (text !== undefined && text !== null) e.textContent = text;
  return e;
};
const n = v => Number(v).toLocaleString("en");
const ms = v => v === null || v === undefined ? "–" : v >= 10000 ? (v / 1000).toFixed(1) + " s"
  : v >= 100 ? n(Math.round(v)) + " ms" : v.toFixed(1) + " ms";
const bytes = v => v >= 1048576 ? (v / 1048576).toFixed(1) + " MiB" : (v / 1024).toFixed(0) + " KiB";
const bar = (value, of, cls) => {
  const b = make("div", "bar " + (cls || "")), i = make("i");
  i.style.width = (of > 0 ? Math.min(100, 100 * value / of) : 0) + "%";
  b.append(i);
  return b;
};
function card(b) {
  const c = make("section", "card"), h = make("header");
  h.append(make("span", "", b.name), make("span", "state " + b.state, b.state));
  c.append(h, make("div", "quiet place", b.kind + " · " + b.place));
  if (b.state !== "ready" && b.reason) {
    c.append(make("div", b.state === "down" ? "error" : "quiet", b.reason));
  }
  const d = make("dl");
  const row = (k, v, whole) => {
    const line = make("div");
    line.append(make("dt", "", k), make("dd", "", v));
    if (whole) line.title = whole;
    d.append(line);
  };
  // A llama-server may call its model by the path of its file: the end tells enough.
  row("models", b.models.map(m => m.split("/").pop() || m).join(", ") || "any", b.models.join("\n"));
  row("context, slots", (b.context ? n(b.context) : "not known") + ", " + b.slots);
  row("answered / failed / cancelled", [b.completed, b.failed, b.cancelled].map(n).join(" / "));
  row("tokens in / reused / out",
      [b.tokens.prompt, b.tokens.reused, b.tokens.generated].map(n).join(" / "));
  row("token counts", b.tokens.counted);
  row("latency model", b.latency.source + ", " + n(b.latency.observations) + " seen" +
      (b.latency.observations ? ", typically off by " + (100 * b.latency.relative_error).toFixed(0) + "%" : ""));
  row("ms a token, in / out", b.latency.prefill_ms_per_token.toFixed(2) + " / " +
      b.latency.decode_ms_per_token.toFixed(2));
  row("cache", n(b.cache.sequences) + (b.cache.sequences === 1 ? " sequence, " : " sequences, ") +
      bytes(b.cache.bytes));
  row("reuse predicted right", b.cache.checked
      ? (100 * b.cache.exact / b.cache.checked).toFixed(1) + "% of " + n(b.cache.checked) : "–");
  c.append(d);
  const jobs = make("ul", "jobs");
  for (const j of b.jobs) {
    const li = make("li", "", j.state + " for " + ms(j.age_ms) + " of " + ms(j.predicted_ms) +
        (j.tokens ? ", " + j.tokens + " tokens" : ""));
    li.append(bar(j.age_ms, j.predicted_ms, j.age_ms > j.predicted_ms ? "late" : ""));
    jobs.append(li);
  }
  c.append(jobs);
  return c;
}
function decision(d) {
  const e = make("article", "decision"), t = make("div", "top");
  t.append(make("span", "to", d.backend || d.status),
      make("span", "quiet", new Date(d.time_ms).toLocaleTimeString()));
  if (d.backend) {
    t.append(make("span", "", n(d.prompt_tokens) + " in (" + n(d.cached_tokens) + " cached), up to " +
        n(d.max_new_tokens) + " out"));
  }
  t.append(make("span", "quiet", d.id));
  e.append(t, make("div", "why", d.reason));
  if (d.error && d.error !== d.status) e.append(make("div", "error", d.error));
  if (!d.backend) return e;
  const most = Math.max(d.predicted_ms, d.measured_ms || 0);
  const g = make("div", "times");
  g.append(make("span", "quiet", "predicted"), bar(d.predicted_ms, most),
      make("b", "", ms(d.predicted_ms)));
  if (d.finished) {
    g.append(make("span", "quiet", "measured"), bar(d.measured_ms, most, "measured"),
        make("b", "", ms(d.measured_ms)));
  }
  e.append(g);
  return e;
}
let key = sessionStorage.getItem("parallax-key") || "";
async function refresh() {
  const lost = document.getElementById("lost");
  try {
    const r = await fetch("status.json", key ? {headers: {Authorization: "Bearer " + key}} : {});
    if (r.status === 401) {
      key = prompt("API key") || "";
      sessionStorage.setItem("parallax-key", key);
      if (key) return void setTimeout(refresh, 0);
      lost.textContent = "An API key is wanted. Reload to give one.";
      return;
    }
    const s = await r.json(), t = s.totals;
    lost.textContent = "";
    document.getElementById("totals").textContent = "policy " + s.policy + ", objective " +
        s.objective + " · " + n(t.answers) + " answers, " + n(t.errors) + " errors, " +
        n(t.cancelled) + " cancelled, " + n(t.retries) + " retries · " + n(t.under_way) +
        " under way" + (t.records_lost ? " · " + n(t.records_lost) + " records lost" : "");
    document.getElementById("cards").replaceChildren(...s.backends.map(card));
    if (s.decisions.length) {
      document.getElementById("decisions").replaceChildren(...s.decisions.map(decision));
    }
  } catch (e) {
    lost.textContent = "The router does not answer.";
  }
  setTimeout(refresh, document.hidden ? 5000 : 1000);
}
refresh();
</script>
</body>
</html>
)HTML";
}

}  // namespace parallax::server
