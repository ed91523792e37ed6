// Shows what /events tells: a message, or what is in its way.

import { el } from "/dom.js";
import { messageView } from "/message.js";

const $ = (id) => document.getElementById(id);
const view = messageView($("message"));

function show({ message, problems = [] }) {
  $("problems").hidden = problems.length === 0;
  $("problems").querySelector("ul").replaceChildren(...problems.map((problem) => el("li", {}, problem)));
  const time = new Date().toLocaleTimeString();
  $("state").textContent = problems.length ? `not rendered, ${time}: below is the last that could be` : `rendered ${time}`;
  if (!message) return;
  document.title = $("subject").textContent = message.subject ?? message.title;
  view.show(message);
}

const events = new EventSource("/events");
events.onmessage = (event) => show(JSON.parse(event.data));
events.onerror = () => { $("state").textContent = "the command has ended, or does not answer: trying again"; };
