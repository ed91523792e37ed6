// One message as its reader sees it. What a message holds is set as text; its HTML goes into a frame that may run
// nothing and load nothing. A message is one of
//   {kind: "mail", id, from, to, subject, html, text, size (of the HTML, in bytes), headers: [[name, value]]}
//   {kind: "push", title, body, url, tag, topic, ttl (seconds), urgency}
// of which id, topic, ttl and urgency may be absent or null, and size too.

import { el, facts } from "/dom.js";

// Gmail shows no more of a mail, and the way to unsubscribe stands at its end.
const CLIPPED = 102_000;
const NEAR = 90_000;
const MAIL_VIEWS = { phone: "Phone", desktop: "Desktop", text: "Text", headers: "Headers", source: "Source" };

/** A place for messages: `show(message)` puts one there. */
export function messageView(place) {
  place.classList.add("message");
  let shown = null;
  let view = innerWidth < 700 ? "phone" : "desktop";
  let scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

  const tabs = Object.entries(MAIL_VIEWS).map(([name, label]) =>
    el("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "view", "data-view": name,
      click: () => choose(name), keydown: (event) => step(event, name) }, label));
  const schemeButton = el("button", { type: "button", click: flip });
  const size = el("span", { class: "size" });
  const frame = el("iframe", { title: "The mail", sandbox: "" });
  const subject = el("b");
  const sender = el("span");
  const mail = el("div", { class: "mail" }, el("header", {}, subject, sender), frame);
  const plain = el("pre", { tabindex: "0" });
  const headers = el("dl");
  const panel = el("div", { class: "view", role: "tabpanel", id: "view" }, mail, plain, headers);

  function choose(name) {
    view = name;
    arrange();
    tabs.find((tab) => tab.dataset.view === name).focus();
  }

  function step(event, name) {
    const views = Object.keys(MAIL_VIEWS);
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) choose(views.at((views.indexOf(name) + by) % views.length));
  }

  function flip() {
    scheme = scheme === "dark" ? "light" : "dark";
    arrange();
  }

  function arrange() {
    for (const tab of tabs) {
      const chosen = tab.dataset.view === view;
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", `tab-${view}`);
    const framed = view === "phone" || view === "desktop";
    mail.hidden = !framed;
    schemeButton.hidden = !framed;
    schemeButton.textContent = scheme === "dark" ? "Show it in light" : "Show it in dark";
    mail.className = `mail ${view}`;
    frame.className = scheme;
    headers.hidden = view !== "headers";
    plain.hidden = framed || view === "headers";
    if (!plain.hidden) plain.textContent = view === "text" ? shown.text : shown.html;
  }

  function showMail() {
    subject.textContent = shown.subject;
    sender.textContent = [shown.from, shown.to && `to ${shown.to}`].filter(Boolean).join(" ");
    // Setting the same again would scroll the frame to its top.
    if (frame.srcdoc !== shown.html) frame.srcdoc = shown.html;
    headers.replaceChildren(...facts(shown.headers));
    const bytes = shown.size ?? new TextEncoder().encode(shown.html).length;
    size.className = `size ${bytes > CLIPPED ? "bad" : bytes > NEAR ? "warn" : ""}`;
    size.replaceChildren(
      el("meter", { min: 0, max: CLIPPED, low: NEAR, high: CLIPPED - 1, optimum: 0, value: bytes, "aria-hidden": "true" }),
      `${(bytes / 1000).toFixed(1)} of the 102 kB that Gmail shows`);
    if (frame.isConnected) return;
    place.replaceChildren(el("div", { role: "tablist", "aria-label": "Views of the mail" }, ...tabs, schemeButton, size), panel);
  }

  function showPush() {
    const from = URL.canParse(shown.url) ? new URL(shown.url).host : "";
    const more = { Tag: shown.tag, Topic: shown.topic, "Time to live": shown.ttl == null ? null : lifetime(shown.ttl), Urgency: shown.urgency };
    place.replaceChildren(
      el("div", { class: "ground" }, el("article", { class: "card", "aria-label": "The notification" },
        el("span", { class: "icon", "aria-hidden": "true" }, from.charAt(0) || "?"),
        el("span", { class: "from" }, from), el("b", {}, shown.title), el("p", {}, shown.body))),
      el("p", { class: "click" }, "A click opens ", el("code", {}, shown.url)),
      el("dl", {}, ...facts(Object.entries(more).filter(([, value]) => value != null))));
  }

  return {
    /** Shows `message`, or nothing. */
    show(message) {
      shown = message;
      if (!message) place.replaceChildren();
      else if (message.kind === "mail") { showMail(); arrange(); } else showPush();
    },
  };
}

function lifetime(seconds) {
  const units = [[86_400, "days"], [3600, "hours"], [60, "minutes"]];
  const [length, name] = units.find(([length]) => seconds >= 2 * length) ?? [1, "seconds"];
  return name === "seconds" ? `${seconds} seconds` : `${seconds} seconds, about ${Math.round(seconds / length)} ${name}`;
}
