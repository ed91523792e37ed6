// The sandbox's page: takes the state from /events, shows it, and asks for what its buttons say.

import { el, facts, setText } from "/dom.js";
import { messageView } from "/message.js";
import { wirePaste } from "/paste.js";

const $ = (id) => document.getElementById(id);
const PLACES = { mail: "Resend", push: "Push service", ack: "Outbox, ack", page: "Outbox, page" };
const STATUSES = ["pending", "not due", "delivered", "bounced", "complaint", "suppressed", "failed", "expired",
  "withdrawn", "unsubscribed", "received"];

let state = { rows: [], totals: {}, faults: [], notices: [], hidden: 0 };
let chosen = location.hash.slice(1) || null;
let shownMark = null;
const rows = new Map();
const view = messageView($("message"));

/** Asks for something to be done. Answers with what came back, or throws with what is wrong. */
async function ask(path, body = {}) {
  const response = await fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.problem ?? `the sandbox answered ${response.status}`), { field: answer.field });
  return answer;
}

/** Says something to who does not see the table. */
const tell = (text) => { $("told").textContent = text; };

/** What a button does; if it fails, that is said. */
const act = (action) => () => action().catch((error) => { tell(error.message); linked(false); });

function age(since) {
  const seconds = Math.max(0, Math.round((Date.now() - since) / 1000));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

// The table.

function newRow(row) {
  const open = el("button", { type: "button", click: () => choose(row.key), keydown: walk });
  const cells = ["id", "template", "channel", "status", "attempts", "detail", "age"]
    .map((name) => el("td", { role: "cell", class: name }));
  cells[0].append(open);
  const pill = el("span");
  cells[3].append(pill);
  return { tr: el("tr", { role: "row" }, ...cells), cells, open, pill, status: null };
}

function fill(shown, row) {
  const { cells, open, pill } = shown;
  setText(open, row.id ?? "(no id)");
  setText(cells[1], row.template ?? "");
  setText(cells[2], row.channel ?? "");
  setText(pill, row.status);
  pill.className = `pill ${row.status.replace(" ", "-")}`;
  setText(cells[4], String(row.attempts));
  setText(cells[5], row.detail ?? "");
  setText(cells[6], age(row.since));
  shown.tr.classList.toggle("chosen", row.key === chosen);
  if (row.key === chosen) open.setAttribute("aria-current", "true"); else open.removeAttribute("aria-current");
  if (shown.status !== null && shown.status !== row.status) {
    tell(`${row.id ?? "an envelope"} is ${row.status}`);
    shown.tr.classList.remove("fresh");
    requestAnimationFrame(() => shown.tr.classList.add("fresh"));
  }
  shown.status = row.status;
}

function wanted(row) {
  const words = $("words").value.trim().toLowerCase();
  const text = [row.id, row.template, row.channel, row.detail, row.to].join(" ").toLowerCase();
  return (!$("status").value || row.status === $("status").value) && text.includes(words);
}

function showRows() {
  const visible = state.rows.filter(wanted);
  const keys = new Set(visible.map((row) => row.key));
  for (const [key, shown] of rows) {
    if (!keys.has(key)) { shown.tr.remove(); rows.delete(key); }
  }
  let before = null;
  for (const row of visible) {
    const shown = rows.get(row.key) ?? newRow(row);
    rows.set(row.key, shown);
    fill(shown, row);
    // Moving an element takes its focus away: only those that stand elsewhere are moved.
    const next = before ? before.nextSibling : $("rows").firstChild;
    if (shown.tr !== next) $("rows").insertBefore(shown.tr, next);
    before = shown.tr;
  }
  $("none").hidden = state.rows.length > 0;
  $("hidden").hidden = visible.length === state.rows.length && state.hidden === 0;
  setText($("hidden"), [
    visible.length < state.rows.length ? `${state.rows.length - visible.length} do not match the filter.` : "",
    state.hidden ? `${state.hidden} older ones are not shown.` : "",
  ].filter(Boolean).join(" "));
}

/** The arrow keys go from envelope to envelope. */
function walk(event) {
  const by = { ArrowDown: "nextSibling", ArrowUp: "previousSibling" }[event.key];
  const row = by && event.currentTarget.closest("tr")[by];
  if (!row) return;
  event.preventDefault();
  row.querySelector("button").focus();
}

// One envelope.

function choose(key) {
  chosen = key;
  shownMark = null;
  history.replaceState(null, "", `#${key}`);
  showRows();
  showDetail().then(() => $("detail").focus({ preventScroll: false }));
}

function close() {
  const open = rows.get(chosen)?.open;
  chosen = null;
  history.replaceState(null, "", location.pathname);
  showRows();
  showDetail();
  open?.focus();
}

async function showDetail() {
  const row = state.rows.find((row) => row.key === chosen);
  if (!row) {
    $("detail").hidden = true;
    return;
  }
  const mark = JSON.stringify(row);
  if (mark === shownMark) return;
  shownMark = mark;
  const answer = await fetch(`/message/${row.key}`).then((response) => (response.ok ? response.json() : null)).catch(() => null);
  if (!answer || chosen !== row.key) return;
  $("detail").hidden = false;
  setText($("detail-title"), row.id ?? "(no id)");
  setText($("detail-status"), row.status);
  $("detail-status").className = `pill ${row.status.replace(" ", "-")}`;
  setText($("detail-facts"), [row.template, row.channel && `by ${row.channel}`, row.to && `to ${row.to}`,
    row.detail].filter(Boolean).join(" · "));
  view.show(answer.message);
  $("lines").replaceChildren(...answer.lines.map((line) =>
    el("li", {}, el("time", {}, new Date(line.at).toLocaleTimeString()), el("span", {}, line.what))));
  if (!answer.lines.length) $("lines").append(el("li", {}, "No worker has sent it or told of it."));
  $("envelope").hidden = !answer.envelope;
  setText($("envelope").querySelector("pre"), JSON.stringify(answer.envelope, null, 2));
}

// Everything else.

function showFaults() {
  const items = state.faults.flatMap(({ at, armed, held }) => [
    ...armed.map((fault) => el("li", {}, `${PLACES[at]}: ${fault.what}, ${fault.always ? "every time" : "next time"}${fault.on ? `, for ${fault.on}` : ""}`)),
    held ? el("li", {}, `${PLACES[at]}: ${held} waiting for an answer`, button("Release", "/release", at)) : null,
    armed.length ? el("li", {}, button(`Take back: ${PLACES[at]}`, "/clear", at)) : null,
  ]).filter(Boolean);
  // A list that says the same stays, and with it the focus.
  if ($("armed").textContent === items.map((item) => item.textContent).join("")) return;
  $("armed").replaceChildren(...items);
  $("armed").hidden = items.length === 0;
}

const button = (label, path, at) => el("button", { type: "button", click: act(() => ask(path, { at })) }, label);

function showTotals() {
  const { mails = 0, pushes = 0, acks = 0, pages = 0 } = state.totals;
  const counts = [[mails === 1 ? "mail" : "mails", mails], [pushes === 1 ? "push" : "pushes", pushes],
    [acks === 1 ? "ack" : "acks", acks], [pages === 1 ? "page asked for" : "pages asked for", pages]];
  $("totals").replaceChildren(...counts.map((pair) => el("div", {}, ...facts([pair]))));
}

function show(next) {
  state = next;
  showRows();
  showFaults();
  showTotals();
  $("notices").replaceChildren(...state.notices.map((line) =>
    el("li", {}, `${new Date(line.at).toLocaleTimeString()} ${line.what}`)));
  $("notices").hidden = state.notices.length === 0;
  showDetail();
}

function linked(is) {
  setText($("link"), is ? "live" : "the sandbox has ended, or does not answer; trying again");
  $("link").classList.toggle("gone", !is);
}

function setUp({ env, examples, faults }) {
  $("examples").replaceChildren(...examples.map(({ name, label }) =>
    el("button", { type: "button", click: act(() => ask("/enqueue", { example: name })) }, label)));
  $("draft").replaceChildren(el("option", { value: "" }, "what I paste"),
    ...examples.map(({ name, label }) => el("option", { value: name }, label)));
  $("failure").replaceChildren(...faults.map(({ at, name, label }) =>
    el("option", { value: `${at} ${name}` }, `${PLACES[at]}: ${label}`)));
  $("env").textContent = env.map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`).join("\n");
}

wirePaste({ ask, tell });
$("status").append(...STATUSES.map((status) => el("option", { value: status }, status)));
$("words").addEventListener("input", showRows);
$("status").addEventListener("change", showRows);
$("close").addEventListener("click", close);
$("fail").addEventListener("submit", (event) => {
  event.preventDefault();
  const [at, what] = $("failure").value.split(" ");
  act(() => ask("/fault", { at, what, always: $("always").checked }))();
});
$("show-settings").addEventListener("click", () => $("settings").showModal());
$("copy-env").addEventListener("click", act(async () => {
  await navigator.clipboard.writeText($("env").textContent);
  tell("copied");
  $("settings").close();
}));
for (const closes of document.querySelectorAll("[data-closes]")) {
  closes.addEventListener("click", () => closes.closest("dialog").close());
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen && !document.querySelector("dialog[open]")) close();
});
setInterval(() => state.rows.forEach((row) => {
  const shown = rows.get(row.key);
  if (shown) setText(shown.cells[6], age(row.since));
}), 1000);

const events = new EventSource("/events");
events.onmessage = (event) => { linked(true); show(JSON.parse(event.data)); };
events.onerror = () => linked(false);
// A sandbox that was started anew has other secrets.
events.onopen = () => fetch("/setup").then((response) => response.json()).then(setUp).catch(() => linked(false));
