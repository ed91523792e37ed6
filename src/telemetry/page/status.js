// Takes the page's own next state from the server every two seconds, so that there is one template for it.

const EVERY = 2000;
const live = document.getElementById("live");

async function refresh() {
  // A hidden page asks for nothing, and who marks some text wants to keep it.
  if (document.hidden || !document.getSelection().isCollapsed) return;
  try {
    const answer = await fetch("/", { signal: AbortSignal.timeout(EVERY) });
    if (!answer.ok) throw new Error(`${answer.status}`);
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    tell("live");
  } catch {
    tell("the worker does not answer: below is what it last said");
  }
}

function show(next) {
  const scrolled = document.querySelector(".scroll")?.scrollLeft ?? 0;
  const focused = document.activeElement?.className;
  document.title = next.title;
  for (const part of ["#facts", "main"]) document.querySelector(part).replaceWith(next.querySelector(part));
  const scroll = document.querySelector(".scroll");
  if (scroll) scroll.scrollLeft = scrolled;
  if (focused === "scroll") scroll?.focus();
}

function tell(what) {
  if (live.textContent !== what) live.textContent = what;
  document.body.classList.toggle("gone", what !== "live");
}

setInterval(refresh, EVERY);
refresh();
