// Shows what /events tells: a message, or what is in its way. Everything that a message holds is set as text; its
// HTML goes into a frame that may run nothing and load nothing.

const $ = (id) => document.getElementById(id);
// Gmail clips what is longer, and the unsubscribe link goes first.
const CLIPPED = 102_000;
const WARN = 90_000;
const VIEWS = ["phone", "desktop", "text", "source"];

let message = null;
let view = "desktop";

function size(html) {
  const bytes = new TextEncoder().encode(html).length;
  $("size").textContent = `${(bytes / 1000).toFixed(1)} kB of the 102 kB that Gmail shows`;
  $("size").className = bytes > CLIPPED ? "bad" : bytes > WARN ? "warn" : "";
}

function showView() {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.dataset.view === view;
    tab.setAttribute("aria-selected", String(chosen));
    tab.tabIndex = chosen ? 0 : -1;
  }
  $("view").setAttribute("aria-labelledby", `tab-${view}`);
  const framed = view === "phone" || view === "desktop";
  $("frame").hidden = !framed;
  $("plain").hidden = framed;
  $("frame").className = view;
  if (!framed) $("plain").textContent = view === "text" ? message.text : message.html;
}

function showMail() {
  $("subject").textContent = message.subject;
  // Setting the same again would scroll the frame to its top.
  if ($("frame").srcdoc !== message.html) $("frame").srcdoc = message.html;
  size(message.html);
  $("headers").replaceChildren(...message.headers.flatMap(([name, value]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = name;
    dd.textContent = value;
    return [dt, dd];
  }));
  showView();
}

function showPush() {
  $("subject").textContent = "Push notification";
  for (const part of ["title", "body", "url", "tag"]) $(`push-${part}`).textContent = message[part];
}

function show(state) {
  const problems = state.problems ?? [];
  $("problems").hidden = problems.length === 0;
  $("problems").querySelector("ul").replaceChildren(...problems.map((problem) => {
    const item = document.createElement("li");
    item.textContent = problem;
    return item;
  }));
  const time = new Date().toLocaleTimeString();
  $("state").textContent = problems.length ? `not rendered, ${time}: below is the last that could be` : `rendered ${time}`;
  if (!state.message) return;
  message = state.message;
  document.title = message.subject ?? message.title;
  $("mail").hidden = message.kind !== "mail";
  $("push").hidden = message.kind !== "push";
  if (message.kind === "mail") showMail(); else showPush();
}

function choose(next) {
  view = next;
  showView();
  $(`tab-${view}`).focus();
}

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => choose(tab.dataset.view));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) choose(VIEWS.at((VIEWS.indexOf(view) + step) % VIEWS.length));
  });
}

const events = new EventSource("/events");
events.onmessage = (event) => show(JSON.parse(event.data));
events.onerror = () => { $("state").textContent = "the command has ended, or does not answer: trying again"; };
